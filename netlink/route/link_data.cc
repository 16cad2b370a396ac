#include "netlink/route/link_data.h"

#include <arpa/inet.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>

namespace netlink {

namespace {

// IFLA_MACVLAN_MACADDR_MODE: replace the whole list.
constexpr std::uint32_t kReplaceAllowed = MACVLAN_MACADDR_SET;

void put_priorities(Message& message, std::uint16_t attribute, const Vlan::Priorities& map) {
  if (map.empty()) return;
  message.nest(attribute, [&] {
    for (const auto& [from, to] : map) {
      message.put_struct(IFLA_VLAN_QOS_MAPPING, ifla_vlan_qos_mapping{.from = from, .to = to});
    }
  });
}

struct DataEncoder {
  Message& message;
  void operator()(std::monostate) const {}
  void operator()(const Tun&) const {}
  void operator()(const Macvlan& data) const {
    message.put_u32(IFLA_MACVLAN_MODE, static_cast<std::uint32_t>(data.mode));
    if (data.broadcast_queue != 0) {
      message.put_u32(IFLA_MACVLAN_BC_QUEUE_LEN, data.broadcast_queue);
    }
    if (data.allowed.empty()) return;
    message.put_u32(IFLA_MACVLAN_MACADDR_MODE, kReplaceAllowed);
    message.nest(IFLA_MACVLAN_MACADDR_DATA, [&] {
      for (const Mac& mac : data.allowed) message.put(IFLA_MACVLAN_MACADDR, mac.bytes);
    });
  }
  void operator()(const Ipvlan& data) const {
    message.put_u16(IFLA_IPVLAN_MODE, static_cast<std::uint16_t>(data.mode));
    message.put_u16(IFLA_IPVLAN_FLAGS, static_cast<std::uint16_t>(data.isolation));
  }
  void operator()(const Vlan& data) const {
    message.put_u16(IFLA_VLAN_ID, data.id);
    if (data.protocol != Vlan::k8021q) message.put_be16(IFLA_VLAN_PROTOCOL, data.protocol);
    put_priorities(message, IFLA_VLAN_EGRESS_QOS, data.egress);
    put_priorities(message, IFLA_VLAN_INGRESS_QOS, data.ingress);
  }
  void operator()(const Vrf& data) const { message.put_u32(IFLA_VRF_TABLE, data.table); }
};

Macvlan macvlan_of(const Attributes& data) {
  Macvlan out{.mode = Macvlan::Mode{data.find(IFLA_MACVLAN_MODE).u32()},
              .broadcast_queue = data.find(IFLA_MACVLAN_BC_QUEUE_LEN).u32()};
  for (const Attribute& one : data.nested(IFLA_MACVLAN_MACADDR_DATA)) {
    if (one.type == IFLA_MACVLAN_MACADDR) out.allowed.push_back(one.as<Mac>());
  }
  return out;
}

Vlan::Priorities priorities_of(const Attributes& map) {
  Vlan::Priorities out;
  for (const Attribute& one : map) {
    if (one.type != IFLA_VLAN_QOS_MAPPING) continue;
    const auto mapping = one.as<ifla_vlan_qos_mapping>();
    out.emplace_back(mapping.from, mapping.to);
  }
  return out;
}

Vlan vlan_of(const Attributes& data) {
  const std::uint16_t protocol = data.find(IFLA_VLAN_PROTOCOL).be16();
  return {.id = data.find(IFLA_VLAN_ID).u16(),
          .protocol = protocol != 0 ? protocol : Vlan::k8021q,
          .egress = priorities_of(data.nested(IFLA_VLAN_EGRESS_QOS)),
          .ingress = priorities_of(data.nested(IFLA_VLAN_INGRESS_QOS))};
}

std::optional<std::uint32_t> number_in(const Attributes& data, std::uint16_t attribute) {
  return data.has(attribute) ? std::optional(data.find(attribute).u32()) : std::nullopt;
}

Tun tun_of(const Attributes& data) {
  return {.tap = data.find(IFLA_TUN_TYPE).u8() == IFF_TAP,
          .packet_information = data.find(IFLA_TUN_PI).u8() != 0,
          .vnet_header = data.find(IFLA_TUN_VNET_HDR).u8() != 0,
          .multi_queue = data.find(IFLA_TUN_MULTI_QUEUE).u8() != 0,
          .persistent = data.find(IFLA_TUN_PERSIST).u8() != 0,
          .owner = number_in(data, IFLA_TUN_OWNER),
          .group = number_in(data, IFLA_TUN_GROUP)};
}

}  // namespace

void put_data(Message& message, const LinkData& data) {
  if (std::holds_alternative<std::monostate>(data) || std::holds_alternative<Tun>(data)) return;
  message.nest(IFLA_INFO_DATA, [&] { std::visit(DataEncoder{message}, data); });
}

LinkData data_of(std::string_view kind, const Attributes& data) {
  if (kind == "macvlan") return macvlan_of(data);
  if (kind == "vlan") return vlan_of(data);
  if (kind == "tun") return tun_of(data);
  if (kind == "vrf") return Vrf{.table = data.find(IFLA_VRF_TABLE).u32()};
  if (kind == "ipvlan") {
    return Ipvlan{.mode = Ipvlan::Mode{data.find(IFLA_IPVLAN_MODE).u16()},
                  .isolation = Ipvlan::Isolation{data.find(IFLA_IPVLAN_FLAGS).u16()}};
  }
  return {};
}

}  // namespace netlink
