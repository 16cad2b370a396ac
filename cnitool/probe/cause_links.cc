#include <algorithm>
#include <array>
#include <variant>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"
#include "cnitool/probe/causes.h"
#include "cnitool/probe/route_words.h"
#include "cnitool/route_back.h"
#include "libcni/common/error.h"
#include "netlink/route/bridge_port.h"
#include "netlink/route/link_settings.h"

// Links between pods and the node, ports of bridges, and the node's uplinks.
namespace tool::probe {

namespace {

using cni::cat;
using doctor::quoted;
using netlink::BridgePort;
using netlink::Link;

std::string set_up(const Link& link) {
  return cat("ip link set ", quoted(link.name), " up && cnitool repair");
}

std::optional<Cause> inner_is_broken(const Subject& pod, const Wire& wire) {
  const std::string name = cat(prefix_of(&pod), "'", printable(pod.key.ifname), "' ");
  if (!wire.inner) return Cause{cat(name, "does not exist"), "", restart_of(pod)};
  if (!wire.inner->up) return Cause{cat(name, "is down"), "", restart_of(pod)};
  // The other end of its wire is in another namespace than where its plugin has put it.
  const bool is_of_node = pod.is_routed || !pod.bridge.empty();
  if (is_of_node && wire.inner->kind == "veth" && !wire.outer) {
    return Cause{cat(name, "leads to no link of the node: its host veth is elsewhere"), kSomebodys,
                 restart_of(pod)};
  }
  return std::nullopt;
}

// Its config has another mode: those of the same parent do not hear it, though they should.
std::optional<Cause> in_other_mode(const Subject& pod, const Link& inner) {
  const auto* const macvlan = std::get_if<netlink::Macvlan>(&inner.data);
  const auto* const ipvlan = std::get_if<netlink::Ipvlan>(&inner.data);
  using Mode = netlink::Macvlan::Mode;
  using Isolation = netlink::Ipvlan::Isolation;
  const bool is_private = (macvlan != nullptr && macvlan->mode == Mode::kPrivate) ||
                          (ipvlan != nullptr && ipvlan->isolation == Isolation::kPrivate);
  const bool is_vepa = (macvlan != nullptr && macvlan->mode == Mode::kVepa) ||
                       (ipvlan != nullptr && ipvlan->isolation == Isolation::kVepa);
  if (!pod.takes_neighbours || (!is_private && !is_vepa)) return std::nullopt;
  const std::string set = cat("ip link set ", quoted(inner.name), " type ", inner.kind,
                              macvlan != nullptr ? " mode bridge" : " bridge");
  return Cause{
      cat(prefix_of(&pod), "'", printable(inner.name), "' is a ", inner.kind, " of mode ",
          is_private ? "private" : "vepa", ", and its config says that pods reach each ", "other"),
      kSomebodys, macvlan != nullptr ? command_in(&pod, set) : restart_of(pod)};
}

// What a port of a bridge receives goes to the bridge, and not to its own addresses.
std::optional<Cause> taken_by_bridge(Scene& scene, const Link& link, const std::string& name) {
  const auto master = link.master == 0 ? std::nullopt : scene.at(nullptr).find(link.master);
  if (!master || master->kind != "bridge") return std::nullopt;
  return Cause{cat(name, " is a port of the bridge '", printable(master->name),
                   "', which takes its packets"),
               kSomebodys, cat("ip link set ", quoted(link.name), " nomaster")};
}

std::optional<Cause> bridge_is_broken(const Subject& pod, const Wire& wire, Scene& scene) {
  if (!wire.bridge) {
    return Cause{cat("bridge '", printable(pod.bridge), "' does not exist"), "", "cnitool repair"};
  }
  const Link& bridge = *wire.bridge;
  if (!bridge.up)
    return Cause{cat("bridge '", printable(bridge.name), "' is down"), "", set_up(bridge)};
  if (wire.outer && wire.outer->master != bridge.index) {
    const auto other = scene.at(nullptr).find(wire.outer->master);
    return Cause{cat("'", printable(wire.outer->name), "', the host veth of the pod '", pod.name,
                     "', is no port of '", printable(bridge.name), "'",
                     other ? cat(", but of '", printable(other->name), "'") : std::string()),
                 "",
                 cat("ip link set ", quoted(wire.outer->name), " master ", quoted(bridge.name))};
  }
  const auto master = bridge.master == 0 ? std::nullopt : scene.at(nullptr).find(bridge.master);
  if (master) {
    return Cause{cat("bridge '", printable(bridge.name), "' belongs to '", printable(master->name),
                     "', whose routes are others"),
                 kSomebodys,
                 cat("ip link set ", quoted(bridge.name), " nomaster && cnitool repair")};
  }
  return std::nullopt;
}

// The node's addresses that are the pods' gateways.
std::optional<Cause> gateway_is_lost(const Look& look, const Subject& pod, const Wire& wire) {
  if (!pod.is_routed) return std::nullopt;
  doctor::Names lost;
  bool concerns = false;
  for (const cni::Address& one : pod.result.ips) {
    if (!one.gateway || one.gateway->is_unspecified() || look.scene.facts().has(*one.gateway))
      continue;
    concerns |= one.gateway->family() == look.leg.target.family();
    lost.push_back(one.gateway->str());
  }
  if (!concerns) return std::nullopt;
  const Link* const way = wire.way();
  return Cause{cat("the node does not have ", joined(lost), ", where the pods have their gateway",
                   way == nullptr ? "" : cat(", on '", printable(way->name), "'")),
               "", "cnitool repair"};
}

std::optional<Cause> without_arp(const Look& look, const Subject* where, const Link& link) {
  const auto settings = netlink::settings_of(look.scene.at(where), link);
  const auto* const ipvlan = std::get_if<netlink::Ipvlan>(&link.data);
  const bool has_none =
      link.kind == "dummy" || (ipvlan != nullptr && ipvlan->mode != netlink::Ipvlan::Mode::kL2);
  if ((settings.flags & kNoArp) == 0 || has_none) return std::nullopt;
  return Cause{
      cat(prefix_of(where), "'", printable(link.name), "' asks and answers no ARP: it is off"), "",
      command_in(where, cat("ip link set ", quoted(link.name), " arp on"))};
}

/// A pod's port of a bridge.
struct Port {
  const Link& link;
  const Link& bridge;
  const Link* inner = nullptr;  // null: the pod has none
};

std::optional<Port> port_of(Scene& scene, const Subject* pod) {
  if (pod == nullptr) return std::nullopt;
  const Wire& wire = scene.wire_of(*pod);
  if (!wire.outer || !wire.bridge) return std::nullopt;
  return Port{*wire.outer, *wire.bridge, wire.inner ? &*wire.inner : nullptr};
}

Cause by_flag(const Link& port, const std::string& what, const std::string& flag) {
  return {cat("'", printable(port.name), "', a port of its bridge, ", what), kSomebodys,
          cat("bridge link set dev ", quoted(port.name), " ", flag)};
}

// In which the bridge looks for frames to what is behind the link; empty: unknown.
std::optional<std::uint16_t> vlan_at(Scene& scene, const Link& bridge, const Link& own) {
  if (!bridge.vlan_filtering) return 0;
  for (const netlink::PortVlan& one : scene.at(nullptr).vlans(own)) {
    if (one.pvid) return one.first;
  }
  return std::nullopt;
}

// An entry of the forwarding database by which frames to a MAC address take another way.
std::optional<Cause> misplaced(Scene& scene, const netlink::Mac& mac, const Link& bridge,
                               const Link& own) {
  netlink::RouteSocket& node = scene.at(nullptr);
  const auto vlan = vlan_at(scene, bridge, own);
  for (const netlink::FdbEntry& one : netlink::fdb_of(node, mac)) {
    if (vlan && one.vlan != *vlan) continue;
    // A bridge takes frames to the MAC addresses of its ports, and may have that of one as its own.
    const bool is_bridges = one.is_local && own.index == bridge.index;
    const bool is_fixed = one.is_static && one.link != own.index && !is_bridges;
    if (!is_fixed || (one.master != bridge.index && one.link != bridge.index)) continue;
    const auto link = node.find(one.link);
    if (!link) continue;
    return Cause{cat("the forwarding database of '", printable(bridge.name), "' has ", mac.str(),
                     " at '", printable(link->name), "', and it is at '", printable(own.name), "'"),
                 kSomebodys,
                 cat("bridge fdb del ", mac.str(), " dev ", quoted(link->name),
                     one.link == bridge.index ? " self" : " master",
                     one.vlan == 0 ? std::string() : cat(" vlan ", one.vlan))};
  }
  return std::nullopt;
}

// A pod whose config has no VLAN sends what is of the bridge's own.
std::string vlan_restored(const Subject& pod, const Port& port,
                          const std::vector<netlink::PortVlan>& of_bridge) {
  const auto own = std::ranges::find_if(of_bridge, [](const auto& one) { return one.pvid; });
  if (pod.has_vlan || own == of_bridge.end()) return "cnitool repair";
  return cat("bridge vlan add dev ", quoted(port.link.name), " vid ", own->first, " pvid untagged");
}

// A bridge keeps what is for a MAC address of one of its ports, or for its own.
std::optional<Cause> has_mac_of_bridge(const Subject& pod, const Port& port) {
  if (port.inner->mac == port.link.mac) {
    const auto made =
        std::ranges::find(pod.result.interfaces, port.link.name, &cni::Interface::name);
    const std::string mac = made == pod.result.interfaces.end() ? "random" : made->mac;
    return Cause{
        cat("'", printable(port.link.name), "' has the pod's MAC address ", port.link.mac.str()),
        kSomebodys, cat("ip link set ", quoted(port.link.name), " address ", mac)};
  }
  if (port.inner->mac != port.bridge.mac) return std::nullopt;
  const auto own = mac_of(pod);
  const std::string set =
      cat("ip link set ", quoted(port.inner->name), " address ", own ? own->str() : std::string());
  return Cause{cat(prefix_of(&pod), "'", printable(port.inner->name), "' has the MAC address ",
                   port.inner->mac.str(), ", which is that of '", printable(port.bridge.name), "'"),
               "of the pod itself, or of a person",
               own && *own != port.inner->mac ? command_in(&pod, set) : restart_of(pod)};
}

std::optional<Cause> of_other_vlan(Scene& scene, const Port& port, const Subject& pod) {
  if (!port.bridge.vlan_filtering) return std::nullopt;
  netlink::RouteSocket& node = scene.at(nullptr);
  const auto vlans = node.vlans(port.link);
  const auto of_bridge = node.vlans(port.bridge);
  const auto own = std::ranges::find_if(vlans, [](const auto& one) { return one.pvid; });
  const std::string name = cat("'", printable(port.link.name), "'");
  const std::string repair = vlan_restored(pod, port, of_bridge);
  if (own == vlans.end()) {
    return Cause{
        cat(name, ", a port of a bridge that filters VLANs, has no VLAN for what pods send"),
        kSomebodys, repair};
  }
  const bool is_shared = std::ranges::any_of(of_bridge, [&](const auto& one) {
    return one.first <= own->first && own->first <= one.last;
  });
  if (is_shared || !pod.is_routed) return std::nullopt;
  return Cause{cat("what pods send is of VLAN ", own->first, " at ", name, ", and '",
                   printable(port.bridge.name), "' itself is not in it"),
               kSomebodys, repair};
}

bool is_known(Scene& scene, const Port& port) {
  if (port.inner == nullptr) return false;
  const auto entries = netlink::fdb_of(scene.at(nullptr), port.inner->mac);
  return std::ranges::any_of(
      entries, [&](const netlink::FdbEntry& one) { return one.link == port.link.index; });
}

std::optional<Cause> narrow(Scene& scene, const Port& port, bool is_v4) {
  const auto state = netlink::bridge_port(scene.at(nullptr), port.link);
  if (!state) return std::nullopt;
  if (state->state != BridgePort::State::kForwarding) {
    return by_flag(port.link, cat("is ", netlink::str(state->state), ", and not forwarding"),
                   "state forwarding");
  }
  const bool is_learnt = is_known(scene, port);
  if (state->locked && !is_learnt) {
    return by_flag(port.link, "is locked, and takes frames of known senders alone", "locked off");
  }
  if (is_v4 && !state->bcast_flood) {
    return by_flag(port.link, "sends no broadcasts: bcast_flood is off", "bcast_flood on");
  }
  if (!is_v4 && !state->mcast_flood) {
    return by_flag(port.link, "sends no multicasts: mcast_flood is off", "mcast_flood on");
  }
  if (!state->flood && !is_learnt) {
    return by_flag(port.link,
                   "sends nothing to MAC addresses that the bridge has not learnt: flood is off",
                   "flood on");
  }
  return std::nullopt;
}

std::optional<Cause> isolated(Scene& scene, const Port& from, const Port& to) {
  netlink::RouteSocket& node = scene.at(nullptr);
  const auto one = netlink::bridge_port(node, from.link),
             other = netlink::bridge_port(node, to.link);
  if (!one || !other || !one->isolated || !other->isolated) return std::nullopt;
  const auto [first, second] = std::minmax(from.link.name, to.link.name);
  return Cause{
      cat("ports of bridge '", printable(from.bridge.name), "' are isolated from each other: '",
          printable(first), "' and '", printable(second), "'"),
      kSomebodys, cat("bridge link set dev ", quoted(first), " isolated off")};
}

std::optional<Cause> broken_wire(const Look& look, const Subject* pod) {
  if (pod == nullptr) return std::nullopt;
  const Wire& wire = look.scene.wire_of(*pod);
  if (auto cause = inner_is_broken(*pod, wire)) return cause;
  if (wire.outer && !wire.outer->up) {
    return Cause{cat("'", printable(wire.outer->name), "', the host veth of the pod '", pod->name,
                     "', is down"),
                 "", set_up(*wire.outer)};
  }
  if (!pod->bridge.empty()) {
    if (auto cause = bridge_is_broken(*pod, wire, look.scene)) return cause;
  } else if (wire.outer && pod->is_routed) {
    const std::string name =
        cat("'", printable(wire.outer->name), "', the host veth of the pod '", pod->name, "',");
    if (auto cause = taken_by_bridge(look.scene, *wire.outer, name)) return cause;
  }
  if (auto cause = gateway_is_lost(look, *pod, wire)) return cause;
  if (auto cause = without_arp(look, pod, *wire.inner)) return cause;
  const bool is_between = look.leg.from != nullptr && look.leg.to != nullptr;
  if (is_between) {
    if (auto cause = in_other_mode(*pod, *wire.inner)) return cause;
  }
  if (wire.way() == nullptr || wire.inner->kind != "veth") return std::nullopt;
  return without_arp(look, nullptr, *wire.way());
}

std::optional<Cause> kept_at_port_of(const Look& look, const Subject* pod) {
  const auto port = port_of(look.scene, pod);
  if (pod == nullptr || !port) return std::nullopt;
  const Link& bridge = port->bridge;
  if (port->inner != nullptr) {
    if (auto cause = has_mac_of_bridge(*pod, *port)) return cause;
    if (auto cause = misplaced(look.scene, port->inner->mac, bridge, port->link)) return cause;
  }
  if (auto cause = misplaced(look.scene, bridge.mac, bridge, bridge)) return cause;
  if (auto cause = of_other_vlan(look.scene, *port, *pod)) return cause;
  return narrow(look.scene, *port, look.leg.target.is_v4());
}

// A route that takes less than its link, as the node sends by it.
std::optional<Cause> narrow_route(const Look& look) {
  constexpr unsigned kMtu = 2;  // RTAX_MTU
  const Packet& packet = look.one.question.packet;
  for (const Subject* const where : {look.leg.from, static_cast<const Subject*>(nullptr)}) {
    const auto found = look.scene.at(where).match(packet.target);
    if (!found || found->route.mtu == 0 || found->route.mtu >= packet.size) continue;
    return Cause{
        cat(prefix_of(where), "the route '", text_of(found->route, look.scene, where), "' takes ",
            found->route.mtu, " bytes, and the pods send up to ", packet.size),
        kSomebodys,
        command_in(where, change_of(found->route, {kMtu, static_cast<std::uint32_t>(packet.size)},
                                    look.scene, where))};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Cause> broken_wire_from(const Look& look) { return broken_wire(look, look.leg.from); }

std::optional<Cause> broken_wire_to(const Look& look) { return broken_wire(look, look.leg.to); }

std::optional<Cause> kept_by_bridge(const Look& look) {
  const auto from = port_of(look.scene, look.leg.from), to = port_of(look.scene, look.leg.to);
  if (from && to && from->bridge.index == to->bridge.index) {
    if (auto cause = isolated(look.scene, *from, *to)) return cause;
  }
  if (auto cause = kept_at_port_of(look, look.leg.from)) return cause;
  return kept_at_port_of(look, look.leg.to);
}

std::optional<Cause> broken_uplink(const Look& look) {
  if (!look.leg.is_beyond && !look.leg.is_from_beyond) return std::nullopt;
  const auto& uplink = look.scene.facts().uplink(look.leg.source.family());
  const auto link = uplink ? look.scene.at(nullptr).find(uplink->link) : std::nullopt;
  if (!link) return std::nullopt;
  const std::string name = cat("the node's uplink '", printable(link->name), "' ");
  if (!link->up) return Cause{cat(name, "is down"), "", up_with_route(*link)};
  const bool has_carrier = link->oper_state == netlink::OperState::kUp ||
                           link->oper_state == netlink::OperState::kUnknown;
  if (has_carrier) {
    if (auto cause = taken_by_bridge(look.scene, *link, name.substr(0, name.size() - 1)))
      return cause;
    // Of what carries no Ethernet frames it says nothing.
    return link->mac.is_zero() ? std::nullopt : without_arp(look, nullptr, *link);
  }
  return Cause{cat(name, "has no carrier (", netlink::str(link->oper_state), ")"), "",
               cat("ip -s link show ", quoted(link->name))};
}

std::optional<Cause> too_large(const Look& look) {
  const Packet& packet = look.one.question.packet;
  std::vector<const Link*> links;
  const auto& uplink = look.scene.facts().uplink(packet.target.family());
  std::optional<Link> out;
  for (const Subject* const pod : {look.leg.from, look.leg.to}) {
    if (pod == nullptr) continue;
    const Wire& wire = look.scene.wire_of(*pod);
    for (const auto* const link : {&wire.inner, &wire.outer, &wire.bridge}) {
      if (*link) links.push_back(&**link);
    }
  }
  const bool is_other_way = uplink && !look.leg.out.empty() && look.leg.out != uplink->link;
  if ((look.leg.is_beyond && !is_other_way) || look.leg.is_from_beyond) {
    out = uplink ? look.scene.at(nullptr).find(uplink->link) : std::nullopt;
    if (out) links.push_back(&*out);
  }
  for (const Link* const link : links) {
    if (link->mtu == 0 || link->mtu >= packet.size) continue;
    return Cause{
        cat("'", printable(link->name), "' takes ", link->mtu, " bytes, and the pods send up to ",
            packet.size),
        "", cat("restart the pods with \"mtu\": ", link->mtu, " in the config of their network")};
  }
  return narrow_route(look);
}

std::optional<Cause> lost_by_size(const Look& look) {
  const Case& one = look.one;
  if (one.question.packet.size == 0 || one.small_is_lost) return std::nullopt;
  const bool is_out = !one.question.must_answer && !one.answer.says_too_large();
  if (is_out && look.leg.last != Spot::kOnLink) return std::nullopt;
  return Cause{cat("packets of ", one.question.packet.size, " bytes are lost",
                   is_out ? cat(" behind '", printable(look.leg.out), "'") : std::string(),
                   ", and smaller ones are not"),
               "", "restart the pods with a smaller \"mtu\" in the config of their network"};
}

}  // namespace tool::probe
