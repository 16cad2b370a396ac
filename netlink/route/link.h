#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "netlink/netns.h"
#include "netlink/route/link_data.h"
#include "netlink/route/request.h"
#include "netlink/types/mac.h"

namespace netlink {

/// Operational states of RFC 2863, as in linux/if.h (IF_OPER_*).
enum class OperState : std::uint8_t {
  kUnknown,
  kNotPresent,
  kDown,
  kLowerLayerDown,
  kTesting,
  kDormant,
  kUp
};
/// "up", "down", "lower-layer-down", ...
std::string str(OperState state);

/// Some of /proc/sys/net/ipv6/conf/LINK, as it comes with the link: opening those files takes
/// longer the more network namespaces there are (they share one directory).
struct Ipv6Settings {
  int accept_ra = 0;
  int accept_dad = 0;
  int disable_ipv6 = 0;
  int keep_addr_on_down = 0;
  int ndisc_notify = 0;
};

/// A link as the kernel showed it: a snapshot, never updated behind your back.
struct Link {
  int index = 0;
  std::string name;
  std::string kind = {};  ///< "veth", "bridge", ...; empty for lo and hardware
  Mac mac = {};
  /// The hardware's own MAC address (IFLA_PERM_ADDRESS): nothing changes it. Most virtual links
  /// have none.
  std::optional<Mac> permanent_mac = {};
  std::string device = {};  ///< "BUS/NAME" of the hardware ("pci/0000:03:00.1"); since Linux 5.14
  unsigned mtu = 0;
  std::uint32_t tx_queue_length = 0;  ///< packets
  /// Bytes of the largest packet that the stack hands over to be cut into frames (GSO).
  unsigned gso_max_size = 0;
  bool up = false;
  bool loopback = false;
  bool promiscuous = false;    ///< somebody set IFF_PROMISC from user space
  bool all_multicast = false;  ///< the same of IFF_ALLMULTI
  OperState oper_state = OperState::kUnknown;
  int master = 0;      ///< index of the bridge or VRF it belongs to; 0 is none
  int peer_index = 0;  ///< veth: index of the other end, in that end's namespace
  /// veth: where the other end is, as RouteSocket::nsid() numbers it; absent: in this namespace.
  std::optional<int> peer_nsid = {};
  /// macvlan, macvtap, ipvlan, ipvtap, vlan: the index of the link that it stands on, and where
  /// that is, as of a veth.
  int parent_index = 0;
  std::optional<int> parent_nsid = {};
  LinkData data = {};  ///< what only its kind has
  std::string alias = {};
  std::string qdisc = {};          ///< the kind of the root qdisc; "noqueue", where nothing waits
  bool vlan_filtering = false;     ///< bridge only
  std::uint16_t default_pvid = 0;  ///< bridge only: the VLAN ID that a new port gets; 0 is none
  bool hairpin = false, isolated = false;  ///< bridge port only
  std::optional<Ipv6Settings> ipv6 = {};   ///< nothing where the kernel has no IPv6
  bool route_localnet = false;             ///< net.ipv4.conf.LINK.route_localnet
};

/// Reads an RTM_NEWLINK.
Link decode_link(const Reply& reply);

/// A bridge to create: down, with its own hardware address, so that it does not follow its ports'.
struct Bridge {
  std::string name;
  Mac mac;
  unsigned mtu = 0;  ///< bytes; 0 is the kernel's default
  bool vlan_filtering = false;
};
/// Create only: EEXIST where the name is taken.
RouteRequest add(const Bridge& spec);

/// One end of a veth pair to create. Both ends are made down.
struct VethEnd {
  std::string name;
  Mac mac;
  int master = 0;  ///< only for the end in the sending socket's namespace; 0 is none
};
/// A veth pair made in one message: this end in the socket's namespace, the peer born in peer_ns
/// (veth(4); a link that is moved afterwards costs an RCU grace period). EEXIST where either name
/// is taken.
struct Veth {
  VethEnd end, peer;
  NetNs peer_ns;
  unsigned mtu = 0;  ///< bytes, of both ends; 0 is the kernel's default
};
RouteRequest add(const Veth& spec);

/// A link to create that is no bridge and no veth: "ifb", "dummy", "macvlan" (ip-link(8)). In the
/// socket's namespace.
struct NewLink {
  std::string kind, name;
  std::optional<Mac> mac = {};                        ///< absent: the kernel's choice
  unsigned mtu = 0;                                   ///< bytes; 0 is the kernel's default
  std::optional<std::uint32_t> tx_queue_length = {};  ///< packets; absent: the kernel's default
  bool up = false;
  int parent = 0;  ///< index of the link that it is to stand on; 0 is none
  /// The namespace of the parent, as RouteSocket::nsid() numbers it; absent: the socket's.
  std::optional<int> parent_nsid = {};
  LinkData data = {};
};
/// Create only: EEXIST where the name is taken.
RouteRequest add(const NewLink& spec);

/// Changes of a link; absent fields stay as they are.
struct LinkChange {
  std::optional<std::string> name = {};  ///< of a link that is down; older kernels refuse others
  std::optional<bool> up = {};
  std::optional<bool> promiscuous = {};
  std::optional<bool> all_multicast = {};
  std::optional<int> master = {};
  std::optional<Mac> mac = {};
  std::optional<std::string> alias = {};
  std::optional<unsigned> gso_max_size = {};          ///< for connections made from now on
  std::optional<unsigned> mtu = {};                   ///< bytes
  std::optional<std::uint32_t> tx_queue_length = {};  ///< packets
  std::optional<bool> arp_notify = {};                ///< net.ipv4.conf.LINK.arp_notify
};
/// A link without index is found by its name: the same send() makes it.
RouteRequest set_link(const Link& link, const LinkChange& change);
/// Before the link is up: it gets no link-local address of IPv6 then, nor the routes that go with
/// it, through all of which the kernel looks whenever a link comes or goes (fib6_clean_all() in
/// net/ipv6/ip6_fib.c). For links that nobody talks to by IPv6, as ports of a bridge.
RouteRequest without_link_local(const Link& link);

/// Flags of a bridge port (linux/if_link.h, IFLA_BRPORT_*).
struct PortFlags {
  std::optional<bool> hairpin = {}, isolated = {};
};
RouteRequest set_port(const Link& port, const PortFlags& flags);

RouteRequest remove_link(const Link& link);

}  // namespace netlink
