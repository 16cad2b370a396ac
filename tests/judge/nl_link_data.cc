// The place of the first two as in nl.cc.
// clang-format off
#include <libnl3/netlink/route/link.h>
// clang-format on
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <netlink/route/link/ipvlan.h>
#include <netlink/route/link/macvlan.h>
#include <netlink/route/link/vlan.h>
#include <netlink/route/link/vrf.h>

#include <map>

#include "tests/judge/judges.h"

namespace judge {

namespace {

using Map = std::map<std::uint32_t, std::uint32_t>;

// Priority 0 is what is not mapped; of two mappings of one priority the kernel takes the second.
Map shown(const netlink::Vlan::Priorities& pairs) {
  Map out;
  for (const auto& [from, to] : pairs) out[from] = to;
  std::erase_if(out, [](const auto& one) { return one.second == 0; });
  return out;
}

Map egress_of(rtnl_link* link) {
  int count = 0;
  const vlan_map* const each = rtnl_link_vlan_get_egress_map(link, &count);
  netlink::Vlan::Priorities pairs;
  for (int i = 0; each != nullptr && i < count; ++i) {
    pairs.emplace_back(each[i].vm_from, each[i].vm_to);
  }
  return shown(pairs);
}

Map ingress_of(rtnl_link* link) {
  const std::uint32_t* const each = rtnl_link_vlan_get_ingress_map(link);
  netlink::Vlan::Priorities pairs;
  for (std::uint32_t from = 0; each != nullptr && from <= VLAN_PRIO_MAX; ++from) {
    pairs.emplace_back(from, each[from]);
  }
  return shown(pairs);
}

struct Kind {
  rtnl_link* theirs;
  const Range& data;

  void operator()(std::monostate) const {}
  void operator()(const netlink::Macvlan& ours) const {
    const auto mode = static_cast<std::uint32_t>(ours.mode);
    same("the mode of a macvlan", mode, rtnl_link_macvlan_get_mode(theirs));
    // libnl 3.7 has no queue, and reads a list only where its length is given.
    same("the queue of a macvlan", ours.broadcast_queue, data.u32(IFLA_MACVLAN_BC_QUEUE_LEN));
    std::vector<netlink::Mac> allowed;
    data.nested(IFLA_MACVLAN_MACADDR_DATA).walk([&](const nlattr* one) {
      if (mnl_attr_get_type(one) != IFLA_MACVLAN_MACADDR) return;
      netlink::Mac mac{};
      if (mnl_attr_get_payload_len(one) < mac.bytes.size()) return;
      std::memcpy(mac.bytes.data(), mnl_attr_get_payload(one), mac.bytes.size());
      allowed.push_back(mac);
    });
    same("the list of a macvlan", ours.allowed, allowed);
  }
  void operator()(const netlink::Ipvlan& ours) const {
    std::uint16_t mode = 0;
    if (rtnl_link_ipvlan_get_mode(theirs, &mode) < 0) mode = 0;
    same("the mode of an ipvlan", static_cast<std::uint16_t>(ours.mode), mode);
    // libnl 3.7 has no flags.
    same("the flags of an ipvlan", static_cast<std::uint16_t>(ours.isolation),
         data.u16(IFLA_IPVLAN_FLAGS));
  }
  void operator()(const netlink::Vlan& ours) const {
    same("the ID of a VLAN", ours.id, data.has(IFLA_VLAN_ID) ? rtnl_link_vlan_get_id(theirs) : 0);
    if (data.be16(IFLA_VLAN_PROTOCOL) != 0) {
      const int in_network_order = rtnl_link_vlan_get_protocol(theirs);
      same("the protocol of a VLAN", ours.protocol,
           be16toh(static_cast<std::uint16_t>(in_network_order)));
    }
    if (any_bytes) return;  // libnl takes every attribute of a map for a mapping
    same("the egress map of a VLAN", shown(ours.egress), egress_of(theirs));
    same("the ingress map of a VLAN", shown(ours.ingress), ingress_of(theirs));
  }
  void operator()(const netlink::Vrf& ours) const {
    std::uint32_t table = 0;
    if (rtnl_link_vrf_get_tableid(theirs, &table) < 0) table = 0;
    same("the table of a VRF", ours.table, table);
  }
  // libnl has no tun.
  void operator()(const netlink::Tun& ours) const {
    same("the type of a tun", ours.tap, data.u8(IFLA_TUN_TYPE) == IFF_TAP);
    same("packet information", ours.packet_information, data.u8(IFLA_TUN_PI) != 0);
    same("the header of a tun", ours.vnet_header, data.u8(IFLA_TUN_VNET_HDR) != 0);
    same("whether a tun has queues", ours.multi_queue, data.u8(IFLA_TUN_MULTI_QUEUE) != 0);
    same("whether a tun is persistent", ours.persistent, data.u8(IFLA_TUN_PERSIST) != 0);
    same("whether a tun has an owner", ours.owner.has_value(),
         data.nested(IFLA_TUN_OWNER).size != 0);
    same("the owner of a tun", ours.owner.value_or(0), data.u32(IFLA_TUN_OWNER));
    same("whether a tun has a group", ours.group.has_value(),
         data.nested(IFLA_TUN_GROUP).size != 0);
    same("the group of a tun", ours.group.value_or(0), data.u32(IFLA_TUN_GROUP));
  }
};

}  // namespace

netlink::LinkData as_read(const netlink::LinkData& data) {
  return std::holds_alternative<netlink::Tun>(data) ? netlink::LinkData{} : data;
}

void link_data(rtnl_link* theirs, const Range& data, const netlink::Link& ours) {
  if (data.at == nullptr) return;  // of a kind that is not initialized
  std::visit(Kind{theirs, data}, ours.data);
}

}  // namespace judge
