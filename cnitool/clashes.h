#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cnitool/given_addresses.h"
#include "libcni/config/facts.h"

/// Networks that can give one address to two pods which see each other.
namespace tool {

/// Where the pods of a network are on the node, as its config says it.
struct Wire {
  enum class Kind : std::uint8_t {
    kNode,    ///< no segment: the node routes to each pod
    kMaster,  ///< on a link
    kBridge,  ///< at a bridge
  };
  Kind kind = Kind::kNode;
  std::string link = {};       ///< the master, the bridge; "": the link of the default route
  std::uint16_t vlan = 0;      ///< the pods' VLAN there; 0: none
  std::uint16_t protocol = 0;  ///< of its tag, netlink::Vlan::k8021q
  bool is_routed = false;      ///< the node has a route to the addresses
  bool operator==(const Wire&) const = default;
};
/// \param facts of the plugin. Empty: nothing of the node is known to be the pods' segment.
std::optional<Wire> wire_of(const nlohmann::json& conf, cni::Facts facts);

/// What a plugin of a network gives its pods.
struct NetworkAddresses {
  std::string network, file;
  std::optional<Wire> wire = {};
  GivenAddresses given = {};
};

/// The same addresses of two networks.
struct Overlap {
  const Given *one, *other;
  netlink::Ip first, last;  ///< of both
  /// "10.5.0.2-10.5.0.9", "10.5.0.2".
  std::string str() const;
};

/// The addresses that both give out, whatever the segments.
std::vector<Overlap> overlaps_of(const GivenAddresses& one, const GivenAddresses& other);

/// Two networks of one segment, or whose pods the node routes to. The order is that of all.
struct Clash {
  const NetworkAddresses *one, *other;  ///< the later, and the earlier one
  std::vector<Overlap> overlaps = {};   ///< two pods can get these
  /// Without overlaps: subnets of which the node has two routes.
  std::optional<Overlap> subnets = {};
};

/// Whether two wires are one segment, as far as that is known.
using Joined = std::function<bool(const Wire& one, const Wire& other)>;
/// As far as the names of two configs say it.
bool have_one_name(const Wire& one, const Wire& other);

/// Networks whose pods are on different segments may share a subnet, and so may those of one
/// segment as long as no address is of both.
std::vector<Clash> clashes(const std::vector<NetworkAddresses>& all, const Joined& joined);

}  // namespace tool
