#include "netlink/route/link.h"

#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "netlink/types/error.h"

namespace netlink {

namespace {

constexpr unsigned kNewLinkFlags = NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK;

void put_end(Message& message, const VethEnd& end, unsigned mtu) {
  message.put(IFLA_IFNAME, end.name);
  message.put(IFLA_ADDRESS, end.mac.bytes);
  if (mtu != 0) message.put_u32(IFLA_MTU, mtu);
  if (end.master != 0) message.put_u32(IFLA_MASTER, static_cast<std::uint32_t>(end.master));
}

// Kinds whose IFLA_LINK is the link below, not the other end.
bool has_parent(std::string_view kind) {
  constexpr std::string_view kKinds[] = {"macvlan", "macvtap", "ipvlan", "ipvtap", "vlan"};
  return std::ranges::find(kKinds, kind) != std::end(kKinds);
}

void decode_link_info(Link& link, const Attributes& info) {
  link.kind = info.text(IFLA_INFO_KIND);
  const Attributes port = info.nested(IFLA_INFO_SLAVE_DATA);
  link.hairpin = port.find(IFLA_BRPORT_MODE).u8() != 0;
  link.isolated = port.find(IFLA_BRPORT_ISOLATED).u8() != 0;
  link.data = data_of(link.kind, info.nested(IFLA_INFO_DATA));
  if (link.kind != "bridge") return;
  const Attributes bridge = info.nested(IFLA_INFO_DATA);
  link.vlan_filtering = bridge.find(IFLA_BR_VLAN_FILTERING).u8() != 0;
  link.default_pvid = bridge.find(IFLA_BR_VLAN_DEFAULT_PVID).u16();
}

// One of the settings that the kernel sends as an array.
int setting(View settings, std::size_t which) {
  return read_struct<int>(settings.subspan(std::min(which * sizeof(int), settings.size())));
}

void decode_families(Link& link, const Attributes& families) {
  for (const Attribute& family : families) {
    if (family.type == AF_INET6) {
      const auto found = family.nested().find(IFLA_INET6_CONF);
      if (found.type == 0) continue;
      link.ipv6 = {.accept_ra = setting(found.value, DEVCONF_ACCEPT_RA),
                   .accept_dad = setting(found.value, DEVCONF_ACCEPT_DAD),
                   .disable_ipv6 = setting(found.value, DEVCONF_DISABLE_IPV6),
                   .keep_addr_on_down = setting(found.value, DEVCONF_KEEP_ADDR_ON_DOWN),
                   .ndisc_notify = setting(found.value, DEVCONF_NDISC_NOTIFY)};
    } else if (family.type == AF_INET) {
      // Numbered from 1 (linux/ip.h).
      const auto found = family.nested().find(IFLA_INET_CONF);
      link.route_localnet = setting(found.value, IPV4_DEVCONF_ROUTE_LOCALNET - 1) == 1;
    }
  }
}

void decode_hardware(Link& link, const Attribute& one) {
  if (one.type == IFLA_PERM_ADDRESS && one.value.size() == link.mac.bytes.size()) {
    link.permanent_mac = one.as<Mac>();
  }
  // Both attributes come in either order.
  if (one.type == IFLA_PARENT_DEV_NAME) link.device += one.text();
  if (one.type == IFLA_PARENT_DEV_BUS_NAME) link.device.insert(0, cat(one.text(), "/"));
}

void decode_attribute(Link& link, const Attribute& one) {
  switch (one.type) {
    case IFLA_IFNAME:
      link.name = one.text();
      break;
    case IFLA_ADDRESS:
      if (one.value.size() == link.mac.bytes.size()) link.mac = one.as<Mac>();
      break;
    case IFLA_MTU:
      link.mtu = one.u32();
      break;
    case IFLA_GSO_MAX_SIZE:
      link.gso_max_size = one.u32();
      break;
    case IFLA_OPERSTATE:
      link.oper_state = OperState{one.u8()};
      break;
    case IFLA_MASTER:
      link.master = one.as<int>();
      break;
    case IFLA_IFALIAS:
      link.alias = one.text();
      break;
    case IFLA_QDISC:
      link.qdisc = one.text();
      break;
    case IFLA_TXQLEN:
      link.tx_queue_length = one.u32();
      break;
    case IFLA_AF_SPEC:
      decode_families(link, one.nested());
      break;
    case IFLA_LINKINFO:
      decode_link_info(link, one.nested());
      break;
    default:
      decode_hardware(link, one);
      if (one.type == IFLA_LINK) link.peer_index = one.as<int>();
      if (one.type == IFLA_LINK_NETNSID) link.peer_nsid = one.as<int>();
  }
}

}  // namespace

std::string str(OperState state) {
  constexpr const char* kNames[] = {"unknown", "not-present", "down", "lower-layer-down",
                                    "testing", "dormant",     "up"};
  const auto i = static_cast<std::size_t>(state);
  return i < std::size(kNames) ? kNames[i] : "unknown";
}

Link decode_link(const Reply& reply) {
  const auto head = reply.fixed<ifinfomsg>();
  Link link;
  link.index = head.ifi_index;
  link.up = (head.ifi_flags & IFF_UP) != 0;
  link.loopback = (head.ifi_flags & IFF_LOOPBACK) != 0;
  link.promiscuous = (head.ifi_flags & IFF_PROMISC) != 0;
  link.all_multicast = (head.ifi_flags & IFF_ALLMULTI) != 0;
  for (const Attribute& one : reply.attributes(sizeof head)) decode_attribute(link, one);
  if (has_parent(link.kind)) {
    link.parent_index = std::exchange(link.peer_index, 0);
    link.parent_nsid = std::exchange(link.peer_nsid, std::nullopt);
  }
  return link;
}

RouteRequest add(const Bridge& spec) {
  Message message(RTM_NEWLINK, kNewLinkFlags, ifinfomsg{});
  message.put(IFLA_IFNAME, spec.name);
  message.put(IFLA_ADDRESS, spec.mac.bytes);
  if (spec.mtu != 0) message.put_u32(IFLA_MTU, spec.mtu);
  message.nest(IFLA_LINKINFO, [&] {
    message.put(IFLA_INFO_KIND, "bridge");
    if (!spec.vlan_filtering) return;
    message.nest(IFLA_INFO_DATA, [&] { message.put_u8(IFLA_BR_VLAN_FILTERING, 1); });
  });
  return {.operation = cat("create bridge '", spec.name, "'"),
          .message = std::move(message),
          .module = "bridge"};
}

RouteRequest add(const Veth& spec) {
  Message message(RTM_NEWLINK, kNewLinkFlags, ifinfomsg{});
  put_end(message, spec.end, spec.mtu);
  message.nest(IFLA_LINKINFO, [&] {
    message.put(IFLA_INFO_KIND, "veth");
    message.nest(IFLA_INFO_DATA, [&] {
      message.nest(VETH_INFO_PEER, [&] {
        message.append(ifinfomsg{});
        put_end(message, spec.peer, spec.mtu);
        message.put_u32(IFLA_NET_NS_FD, static_cast<std::uint32_t>(spec.peer_ns.fd()));
      });
    });
  });
  return {cat("create veth pair '", spec.end.name, "' and '", spec.peer.name, "'"),
          std::move(message),
          {},
          spec.peer_ns,
          "veth"};
}

RouteRequest add(const NewLink& spec) {
  ifinfomsg head{};
  head.ifi_change = head.ifi_flags = spec.up ? IFF_UP : 0;
  Message message(RTM_NEWLINK, kNewLinkFlags, head);
  message.put(IFLA_IFNAME, spec.name);
  if (spec.mac) message.put(IFLA_ADDRESS, spec.mac->bytes);
  if (spec.mtu != 0) message.put_u32(IFLA_MTU, spec.mtu);
  if (spec.tx_queue_length) message.put_u32(IFLA_TXQLEN, *spec.tx_queue_length);
  if (spec.parent != 0) message.put_u32(IFLA_LINK, static_cast<std::uint32_t>(spec.parent));
  if (spec.parent_nsid) {
    message.put_u32(IFLA_LINK_NETNSID, static_cast<std::uint32_t>(*spec.parent_nsid));
  }
  message.nest(IFLA_LINKINFO, [&] {
    message.put(IFLA_INFO_KIND, spec.kind);
    put_data(message, spec.data);
  });
  std::optional<MacUse> used;
  if (spec.mac) used = {.mac = *spec.mac, .parent = spec.parent, .parent_nsid = spec.parent_nsid};
  return {.operation = cat("create ", spec.kind, " '", spec.name, "'"),
          .message = std::move(message),
          .module = std::string(module_of(spec.kind)),
          .mac = used};
}

namespace {

// A macvlan takes its address when it is set up (macvlan_open() in drivers/net/macvlan.c).
std::optional<MacUse> mac_use(const Link& link, const LinkChange& change) {
  if (!change.mac && !change.up.value_or(false)) return std::nullopt;
  return MacUse{.mac = change.mac.value_or(link.mac),
                .link = link.index,
                .parent = link.parent_index,
                .parent_nsid = link.parent_nsid};
}

}  // namespace

RouteRequest set_link(const Link& link, const LinkChange& change) {
  ifinfomsg head{};
  head.ifi_index = link.index;
  const auto flag = [&head](const std::optional<bool>& wanted, unsigned bit) {
    if (!wanted) return;
    head.ifi_change |= bit;
    if (*wanted) head.ifi_flags |= bit;
  };
  flag(change.up, IFF_UP);
  flag(change.promiscuous, IFF_PROMISC);
  flag(change.all_multicast, IFF_ALLMULTI);
  Message message(RTM_SETLINK, NLM_F_ACK, head);
  if (change.name) {
    message.put(IFLA_IFNAME, *change.name);
  } else if (link.index == 0) {
    message.put(IFLA_IFNAME, link.name);
  }
  if (change.master) message.put_u32(IFLA_MASTER, static_cast<std::uint32_t>(*change.master));
  if (change.mac) message.put(IFLA_ADDRESS, change.mac->bytes);
  if (change.alias) message.put(IFLA_IFALIAS, *change.alias);
  if (change.mtu) message.put_u32(IFLA_MTU, *change.mtu);
  if (change.tx_queue_length) message.put_u32(IFLA_TXQLEN, *change.tx_queue_length);
  if (change.gso_max_size) message.put_u32(IFLA_GSO_MAX_SIZE, *change.gso_max_size);
  if (change.arp_notify) {
    message.nest(IFLA_AF_SPEC, [&] {
      message.nest(AF_INET, [&] {
        message.nest(IFLA_INET_CONF,
                     [&] { message.put_u32(IPV4_DEVCONF_ARP_NOTIFY, *change.arp_notify ? 1 : 0); });
      });
    });
  }
  return {.operation = cat("configure '", link.name, "'"),
          .message = std::move(message),
          .mac = mac_use(link, change)};
}

RouteRequest without_link_local(const Link& link) {
  ifinfomsg head{};
  head.ifi_index = link.index;
  Message message(RTM_SETLINK, NLM_F_ACK, head);
  if (link.index == 0) message.put(IFLA_IFNAME, link.name);
  message.nest(IFLA_AF_SPEC, [&] {
    message.nest(AF_INET6,
                 [&] { message.put_u8(IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE); });
  });
  // A kernel without IPv6 has nothing to keep away.
  return {cat("configure '", link.name, "'"), std::move(message), {EAFNOSUPPORT, EOPNOTSUPP}};
}

RouteRequest set_port(const Link& port, const PortFlags& flags) {
  ifinfomsg head{};
  head.ifi_family = AF_BRIDGE;
  head.ifi_index = port.index;
  Message message(RTM_SETLINK, NLM_F_ACK, head);
  message.nest(IFLA_PROTINFO, [&] {
    if (flags.hairpin) message.put_u8(IFLA_BRPORT_MODE, *flags.hairpin ? 1 : 0);
    if (flags.isolated) message.put_u8(IFLA_BRPORT_ISOLATED, *flags.isolated ? 1 : 0);
  });
  return {cat("set flags of bridge port '", port.name, "'"), std::move(message)};
}

RouteRequest remove_link(const Link& link) {
  ifinfomsg head{};
  head.ifi_index = link.index;
  return {cat("remove '", link.name, "'"), Message(RTM_DELLINK, NLM_F_ACK, head), {ENODEV}};
}

}  // namespace netlink
