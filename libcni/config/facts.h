#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace cni {

/// What a plugin does, as far as its keys do not say it. Programs judge a list by it before a pod
/// is added, and look for the plugin's things on the node.
enum class Fact : std::uint8_t {
  kInterface,     ///< creates the container interface
  kChained,       ///< needs the interface of a plugin before it
  kLoopback,      ///< sets `lo` up, and has nothing on the node
  kIpam,          ///< an IPAM plugin: "ipam" is its own and the rest of the config another's
  kRanges,        ///< IPAM: from `subnet` and `ranges`, with leases in the form of host-local's
  kAddresses,     ///< IPAM: those in `addresses`
  kServer,        ///< IPAM: those that a server leases to the MAC address
  kBridge,        ///< the interface is at a port of the node's bridge that `bridge` names
  kRouted,        ///< the node routes to the interface, without a bridge
  kMaster,        ///< the interface is on the link that `master` names
  kDelegates,     ///< the plugin in `delegate` creates the interface, with flanneld's subnet.env
  kPorts,         ///< makes the ports in `portMappings` reachable
  kRates,         ///< limits traffic to the rates in `bandwidth`
  kPolicy,        ///< accepts the pod's traffic, as `ingressPolicy` says
  kSettings,      ///< changes settings of the interface, as `mac` and `sysctl` say
  kSourceRoutes,  ///< moves routes of the interface to tables of the pod, by source address
  kVrf,           ///< moves the interface to a VRF of the pod
  kDevices,       ///< attaches devices that patchbay-agent promises, as further interfaces
  kKeeps,         ///< GC finds what it keeps on the node for a network without a config
};

/// The facts of a plugin.
class Facts {
 public:
  constexpr Facts() = default;
  /// \param link_kind the kind of link that ADD creates (ip-link(8)), "veth". Null: none, or one
  /// that every kernel has.
  constexpr Facts(std::initializer_list<Fact> all, const char* link_kind = nullptr)
      : link_kind_(link_kind) {
    for (const Fact one : all) add(one);
  }

  constexpr void add(Fact one) { bits_ |= bit(one); }
  constexpr bool has(Fact one) const { return (bits_ & bit(one)) != 0; }
  constexpr bool has_one_of(std::initializer_list<Fact> some) const {
    return (bits_ & Facts(some).bits_) != 0;
  }
  constexpr const char* link_kind() const { return link_kind_; }  ///< null: see above

 private:
  static constexpr std::uint32_t bit(Fact one) { return 1U << static_cast<unsigned>(one); }

  std::uint32_t bits_ = 0;
  const char* link_kind_ = nullptr;
};

/// Adds them to a plugin's schema: "facts": ["interface", "routed"], "linkKind": "veth".
void add_facts(Facts facts, nlohmann::ordered_json& schema);
/// Those that a plugin's schema states, without the kind of link; words of a later version are
/// passed over. Empty: it states none.
std::optional<Facts> facts_in(const nlohmann::json& schema);

}  // namespace cni
