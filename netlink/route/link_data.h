#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "netlink/attributes.h"
#include "netlink/message.h"
#include "netlink/types/mac.h"

/// Settings of links of one kind: IFLA_INFO_DATA (linux/if_link.h), to create a link with, and as
/// the kernel dumps it.
namespace netlink {

/// A link with a MAC address of its own on another link, its parent (drivers/net/macvlan.c).
struct Macvlan {
  enum class Mode : std::uint32_t {
    kPrivate = 1,
    kVepa = 2,
    kBridge = 4,
    kPassthru = 8,
    kSource = 16,
  };
  Mode mode = Mode::kBridge;
  std::uint32_t broadcast_queue = 0;  ///< packets; 0 is the kernel's default
  std::vector<Mac> allowed = {};      ///< mode source: senders whose frames the link gets
  bool operator==(const Macvlan&) const = default;
};

/// A link that shares the MAC address of its parent (drivers/net/ipvlan/).
struct Ipvlan {
  enum class Mode : std::uint16_t { kL2 = 0, kL3 = 1, kL3s = 2 };
  enum class Isolation : std::uint16_t { kBridge = 0, kPrivate = 1, kVepa = 2 };
  Mode mode = Mode::kL2;
  Isolation isolation = Isolation::kBridge;
  bool operator==(const Ipvlan&) const = default;
};

/// A link that has the frames of one VLAN of its parent (net/8021q/).
struct Vlan {
  static constexpr std::uint16_t k8021q = 0x8100, k8021ad = 0x88a8;  ///< ETH_P_8021Q, ETH_P_8021AD
  /// From and to a priority: egress maps skb->priority to that of the tag, ingress the other way.
  using Priorities = std::vector<std::pair<std::uint32_t, std::uint32_t>>;
  std::uint16_t id = 0;
  std::uint16_t protocol = k8021q;
  Priorities egress = {}, ingress = {};
  bool operator==(const Vlan&) const = default;
};

/// A tun or tap device (drivers/net/tun.c), as the kernel shows it; /dev/net/tun makes it.
struct Tun {
  bool tap = false;
  bool packet_information = false;  ///< IFF_NO_PI is not set
  bool vnet_header = false;         ///< IFF_VNET_HDR
  bool multi_queue = false;         ///< IFF_MULTI_QUEUE
  bool persistent = false;
  std::optional<std::uint32_t> owner = {}, group = {};  ///< uid, gid
  bool operator==(const Tun&) const = default;
};

/// A link whose members have their routes in a table of its own (drivers/net/vrf.c).
struct Vrf {
  std::uint32_t table = 0;
  bool operator==(const Vrf&) const = default;
};

using LinkData = std::variant<std::monostate, Macvlan, Ipvlan, Vlan, Tun, Vrf>;

/// Adds IFLA_INFO_DATA to what is nested in IFLA_LINKINFO; nothing for a kind without any, or that
/// netlink does not create.
void put_data(Message& message, const LinkData& data);
/// Reads IFLA_INFO_DATA of a kind.
LinkData data_of(std::string_view kind, const Attributes& data);

}  // namespace netlink
