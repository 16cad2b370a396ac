#include "netlink/route/link.h"

#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "netlink/types/error.h"

namespace netlink {

namespace {

constexpr std::uint16_t kNewLinkFlags = NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK;

void put_end(Message& message, const VethEnd& end, unsigned mtu) {
  message.put(IFLA_IFNAME, end.name);
  message.put(IFLA_ADDRESS, end.mac.bytes.data(), end.mac.bytes.size());
  if (mtu != 0) message.put_u32(IFLA_MTU, mtu);
  if (end.master != 0) message.put_u32(IFLA_MASTER, static_cast<std::uint32_t>(end.master));
}

void decode_info_data(Link& link, const void* data, std::size_t size) {
  if (link.kind != "bridge") return;
  nested(data, size, [&link](std::uint16_t type, const void* value, std::size_t length) {
    if (type == IFLA_BR_VLAN_FILTERING) link.vlan_filtering = get_u8(value, length) != 0;
    if (type == IFLA_BR_VLAN_DEFAULT_PVID) link.default_pvid = get_u16(value, length);
  });
}

void decode_port_data(Link& link, const void* data, std::size_t size) {
  nested(data, size, [&link](std::uint16_t type, const void* value, std::size_t length) {
    if (type == IFLA_BRPORT_MODE) link.hairpin = get_u8(value, length) != 0;
    if (type == IFLA_BRPORT_ISOLATED) link.isolated = get_u8(value, length) != 0;
  });
}

void decode_link_info(Link& link, const void* data, std::size_t size) {
  // The kernel sends the kind before its data.
  nested(data, size, [&link](std::uint16_t type, const void* value, std::size_t length) {
    if (type == IFLA_INFO_KIND) link.kind = get_text(value, length);
    if (type == IFLA_INFO_DATA) decode_info_data(link, value, length);
    if (type == IFLA_INFO_SLAVE_DATA) decode_port_data(link, value, length);
  });
}

// One of the settings that the kernel sends as an array.
int setting(const void* data, std::size_t size, std::size_t which) {
  int value = 0;
  if ((which + 1) * sizeof value <= size) {
    std::memcpy(&value, static_cast<const char*>(data) + which * sizeof value, sizeof value);
  }
  return value;
}

Ipv6Settings decode_ipv6(const void* data, std::size_t size) {
  return {.accept_ra = setting(data, size, DEVCONF_ACCEPT_RA),
          .accept_dad = setting(data, size, DEVCONF_ACCEPT_DAD),
          .disable_ipv6 = setting(data, size, DEVCONF_DISABLE_IPV6),
          .keep_addr_on_down = setting(data, size, DEVCONF_KEEP_ADDR_ON_DOWN),
          .ndisc_notify = setting(data, size, DEVCONF_NDISC_NOTIFY)};
}

void decode_family(Link& link, int family, std::uint16_t type, std::span<const char> settings) {
  if (family == AF_INET6 && type == IFLA_INET6_CONF) {
    link.ipv6 = decode_ipv6(settings.data(), settings.size());
  } else if (family == AF_INET && type == IFLA_INET_CONF) {
    // Numbered from 1 (linux/ip.h).
    const std::size_t which = IPV4_DEVCONF_ROUTE_LOCALNET - 1;
    link.route_localnet = setting(settings.data(), settings.size(), which) == 1;
  }
}

void decode_families(Link& link, const void* data, std::size_t size) {
  nested(data, size, [&link](std::uint16_t family, const void* value, std::size_t length) {
    nested(value, length, [&](std::uint16_t type, const void* settings, std::size_t bytes) {
      decode_family(link, family, type, {static_cast<const char*>(settings), bytes});
    });
  });
}

void decode_peer(Link& link, std::uint16_t type, int value) {
  if (type == IFLA_LINK) link.peer_index = value;
  if (type == IFLA_LINK_NETNSID) link.peer_nsid = value;
}

void decode_attribute(Link& link, std::uint16_t type, const void* data, std::size_t size) {
  switch (type) {
    case IFLA_IFNAME:
      link.name = get_text(data, size);
      break;
    case IFLA_ADDRESS:
      if (size == link.mac.bytes.size()) std::memcpy(link.mac.bytes.data(), data, size);
      break;
    case IFLA_MTU:
      link.mtu = get_u32(data, size);
      break;
    case IFLA_GSO_MAX_SIZE:
      link.gso_max_size = get_u32(data, size);
      break;
    case IFLA_OPERSTATE:
      link.oper_state = static_cast<OperState>(get_u8(data, size));
      break;
    case IFLA_MASTER:
      link.master = static_cast<int>(get_u32(data, size));
      break;
    case IFLA_IFALIAS:
      link.alias = get_text(data, size);
      break;
    case IFLA_QDISC:
      link.qdisc = get_text(data, size);
      break;
    case IFLA_TXQLEN:
      link.tx_queue_length = get_u32(data, size);
      break;
    case IFLA_AF_SPEC:
      decode_families(link, data, size);
      break;
    case IFLA_LINKINFO:
      decode_link_info(link, data, size);
      break;
    default:
      decode_peer(link, type, static_cast<int>(get_u32(data, size)));
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
  reply.attributes(sizeof head, [&link](std::uint16_t type, const void* data, std::size_t size) {
    decode_attribute(link, type, data, size);
  });
  return link;
}

Request add(const Bridge& spec) {
  Message message(RTM_NEWLINK, kNewLinkFlags, ifinfomsg{});
  message.put(IFLA_IFNAME, spec.name);
  message.put(IFLA_ADDRESS, spec.mac.bytes.data(), spec.mac.bytes.size());
  if (spec.mtu != 0) message.put_u32(IFLA_MTU, spec.mtu);
  message.nest(IFLA_LINKINFO, [&] {
    message.put(IFLA_INFO_KIND, "bridge");
    if (!spec.vlan_filtering) return;
    message.nest(IFLA_INFO_DATA, [&] { message.put_u8(IFLA_BR_VLAN_FILTERING, 1); });
  });
  return {cat("create bridge '", spec.name, "'"), std::move(message)};
}

Request add(const Veth& spec) {
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
          spec.peer_ns};
}

Request add(const Ifb& spec) {
  ifinfomsg head{};
  head.ifi_change = head.ifi_flags = spec.up ? IFF_UP : 0;
  Message message(RTM_NEWLINK, kNewLinkFlags, head);
  message.put(IFLA_IFNAME, spec.name);
  if (spec.mtu != 0) message.put_u32(IFLA_MTU, spec.mtu);
  message.put_u32(IFLA_TXQLEN, spec.tx_queue_length);
  message.nest(IFLA_LINKINFO, [&] { message.put(IFLA_INFO_KIND, "ifb"); });
  return {cat("create ifb '", spec.name, "'"), std::move(message)};
}

Request set_link(const Link& link, const LinkChange& change) {
  ifinfomsg head{};
  head.ifi_index = link.index;
  const auto flag = [&head](const std::optional<bool>& wanted, unsigned bit) {
    if (!wanted) return;
    head.ifi_change |= bit;
    if (*wanted) head.ifi_flags |= bit;
  };
  flag(change.up, IFF_UP);
  flag(change.promiscuous, IFF_PROMISC);
  Message message(RTM_SETLINK, NLM_F_ACK, head);
  if (link.index == 0) message.put(IFLA_IFNAME, link.name);
  if (change.master) message.put_u32(IFLA_MASTER, static_cast<std::uint32_t>(*change.master));
  if (change.mac) message.put(IFLA_ADDRESS, change.mac->bytes.data(), change.mac->bytes.size());
  if (change.alias) message.put(IFLA_IFALIAS, *change.alias);
  if (change.mtu) message.put_u32(IFLA_MTU, *change.mtu);
  if (change.gso_max_size) message.put_u32(IFLA_GSO_MAX_SIZE, *change.gso_max_size);
  if (change.arp_notify) {
    message.nest(IFLA_AF_SPEC, [&] {
      message.nest(AF_INET, [&] {
        message.nest(IFLA_INET_CONF,
                     [&] { message.put_u32(IPV4_DEVCONF_ARP_NOTIFY, *change.arp_notify ? 1 : 0); });
      });
    });
  }
  return {cat("configure '", link.name, "'"), std::move(message)};
}

Request without_link_local(const Link& link) {
  ifinfomsg head{};
  head.ifi_index = link.index;
  Message message(RTM_SETLINK, NLM_F_ACK, head);
  if (link.index == 0) message.put(IFLA_IFNAME, link.name);
  message.nest(IFLA_AF_SPEC, [&] {
    message.nest(AF_INET6,
                 [&] { message.put_u8(IFLA_INET6_ADDR_GEN_MODE, IN6_ADDR_GEN_MODE_NONE); });
  });
  // Without IPv6 there is nothing to keep away.
  return {cat("configure '", link.name, "'"), std::move(message), {EAFNOSUPPORT, EOPNOTSUPP}};
}

Request set_port(const Link& port, const PortFlags& flags) {
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

Request remove_link(const Link& link) {
  ifinfomsg head{};
  head.ifi_index = link.index;
  return {cat("remove '", link.name, "'"), Message(RTM_DELLINK, NLM_F_ACK, head), {ENODEV}};
}

}  // namespace netlink
