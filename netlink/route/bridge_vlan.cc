#include "netlink/route/bridge_vlan.h"

#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "netlink/types/error.h"

namespace netlink {

namespace {

void put_vlan(Message& message, std::uint16_t id, unsigned flags) {
  bridge_vlan_info info{};
  info.vid = id;
  info.flags = static_cast<std::uint16_t>(flags);
  message.put_struct(IFLA_BRIDGE_VLAN_INFO, info);
}

RouteRequest vlan_request(std::uint16_t type, const char* verb, const Link& port,
                          const std::vector<PortVlan>& vlans) {
  ifinfomsg head{};
  head.ifi_family = AF_BRIDGE;
  head.ifi_index = port.index;
  Message message(type, NLM_F_ACK, head);
  message.nest(IFLA_AF_SPEC, [&] {
    message.put_u16(IFLA_BRIDGE_FLAGS, BRIDGE_FLAGS_MASTER);
    for (const PortVlan& vlan : vlans) {
      const unsigned flags = (vlan.pvid ? BRIDGE_VLAN_INFO_PVID : 0U) |
                             (vlan.untagged ? BRIDGE_VLAN_INFO_UNTAGGED : 0U);
      if (vlan.first == vlan.last) {
        put_vlan(message, vlan.first, flags);
      } else {
        put_vlan(message, vlan.first, flags | BRIDGE_VLAN_INFO_RANGE_BEGIN);
        put_vlan(message, vlan.last, flags | BRIDGE_VLAN_INFO_RANGE_END);
      }
    }
  });
  return {cat(verb, " '", port.name, "'"), std::move(message)};
}

}  // namespace

std::vector<PortVlan> decode_port_vlans(const Reply& reply) {
  std::vector<PortVlan> out;
  for (const Attribute& entry : reply.attributes(sizeof(br_vlan_msg))) {
    const Attributes vlan = entry.nested();
    if (entry.type != BRIDGE_VLANDB_ENTRY || !vlan.has(BRIDGE_VLANDB_ENTRY_INFO)) continue;
    const auto info = vlan.find(BRIDGE_VLANDB_ENTRY_INFO).as<bridge_vlan_info>();
    const Attribute last = vlan.find(BRIDGE_VLANDB_ENTRY_RANGE);
    out.push_back({info.vid, last.value.empty() ? info.vid : last.u16(),
                   (info.flags & BRIDGE_VLAN_INFO_PVID) != 0,
                   (info.flags & BRIDGE_VLAN_INFO_UNTAGGED) != 0});
  }
  return out;
}

RouteRequest add_vlans(const Link& port, const std::vector<PortVlan>& vlans) {
  return vlan_request(RTM_SETLINK, "add VLANs to bridge port", port, vlans);
}

RouteRequest remove_vlans(const Link& port, const std::vector<PortVlan>& vlans) {
  return vlan_request(RTM_DELLINK, "remove VLANs from bridge port", port, vlans);
}

}  // namespace netlink
