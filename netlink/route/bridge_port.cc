#include "netlink/route/bridge_port.h"

#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <iterator>

#include "netlink/types/error.h"

namespace netlink {

std::string str(BridgePort::State state) {
  constexpr const char* kNames[] = {"disabled", "listening", "learning", "forwarding", "blocking"};
  const auto index = static_cast<std::size_t>(state);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

std::optional<BridgePort> decode_bridge_port(const Reply& reply) {
  const Attributes info = reply.attributes(sizeof(ifinfomsg)).nested(IFLA_LINKINFO);
  if (info.text(IFLA_INFO_SLAVE_KIND) != "bridge") return std::nullopt;
  BridgePort out;
  for (const Attribute& one : info.nested(IFLA_INFO_SLAVE_DATA)) {
    const bool is_on = one.u8() != 0;
    if (one.type == IFLA_BRPORT_STATE) out.state = BridgePort::State{one.u8()};
    if (one.type == IFLA_BRPORT_LEARNING) out.learning = is_on;
    if (one.type == IFLA_BRPORT_UNICAST_FLOOD) out.flood = is_on;
    if (one.type == IFLA_BRPORT_MCAST_FLOOD) out.mcast_flood = is_on;
    if (one.type == IFLA_BRPORT_BCAST_FLOOD) out.bcast_flood = is_on;
    if (one.type == IFLA_BRPORT_ISOLATED) out.isolated = is_on;
    if (one.type == IFLA_BRPORT_LOCKED) out.locked = is_on;
  }
  return out;
}

std::optional<BridgePort> bridge_port(RouteSocket& socket, const Link& link) {
  ifinfomsg head{};
  head.ifi_index = link.index;
  std::optional<BridgePort> out;
  socket.ask(
      {cat("look up bridge port '", link.name, "'"), Message(RTM_GETLINK, 0, head), {ENODEV}},
      [&](const Reply& reply) {
        if (reply.type() == RTM_NEWLINK) out = decode_bridge_port(reply);
      });
  return out;
}

std::optional<FdbEntry> decode_fdb_entry(const Reply& reply) {
  const auto head = reply.fixed<ndmsg>();
  const Attributes attributes = reply.attributes(sizeof head);
  const Attribute mac = attributes.find(NDA_LLADDR);
  if (head.ndm_family != AF_BRIDGE || mac.value.size() != sizeof(Mac::bytes)) return std::nullopt;
  return FdbEntry{.mac = Mac{mac.as<decltype(Mac::bytes)>()},
                  .link = head.ndm_ifindex,
                  .master = attributes.find(NDA_MASTER).as<int>(),
                  .is_static = (head.ndm_state & (NUD_NOARP | NUD_PERMANENT)) != 0,
                  .is_local = (head.ndm_state & NUD_PERMANENT) != 0,
                  .vlan = attributes.find(NDA_VLAN).as<std::uint16_t>()};
}

std::vector<FdbEntry> fdb_of(RouteSocket& socket, const Mac& mac) {
  ndmsg head{};
  head.ndm_family = AF_BRIDGE;
  std::vector<FdbEntry> out;
  socket.dump("list forwarding databases", Message(RTM_GETNEIGH, 0, head), [&](const Reply& reply) {
    if (reply.type() != RTM_NEWNEIGH) return;
    const auto one = decode_fdb_entry(reply);
    if (one && one->mac == mac) out.push_back(*one);
  });
  return out;
}

}  // namespace netlink
