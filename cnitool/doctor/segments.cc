#include "cnitool/doctor/segments.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cnitool/delegate.h"
#include "cnitool/doctor/networks.h"
#include "cnitool/json_at.h"
#include "cnitool/known_plugins.h"
#include "netlink/route/address.h"
#include "netlink/route/bridge_vlan.h"

namespace tool::doctor {

namespace {

using netlink::Link;
using netlink::PortVlan;
using netlink::Vlan;

constexpr std::uint32_t kInside = 1U << 31;  // a VLAN of a bridge, not a tag on a wire
constexpr std::size_t kMaxTags = 4, kMaxFrames = 4096;

std::uint32_t tag_of(std::uint16_t protocol, std::uint16_t id) {
  return (static_cast<std::uint32_t>(protocol) << 16U) | id;
}

std::vector<std::uint32_t> with(std::uint32_t tag, std::vector<std::uint32_t> tags) {
  tags.insert(tags.begin(), tag);
  return tags;
}

std::vector<std::uint32_t> without_first(const std::vector<std::uint32_t>& tags) {
  return {tags.begin() + 1, tags.end()};
}

// Its frames are those of the link that it stands on (ip-link(8)).
bool is_beside_parent(const Link& link) {
  return link.kind.starts_with("macv") || link.kind.starts_with("ipv");
}

bool joins_ports(const Link& link) {
  return link.kind == "bridge" || link.kind == "bond" || link.kind == "team";
}

// Between a VLAN and the link below: the tag that frames have there.
std::optional<std::uint32_t> tag_of(const Link& link) {
  const auto* const vlan = std::get_if<Vlan>(&link.data);
  if (vlan == nullptr || vlan->id == 0) return std::nullopt;
  return tag_of(vlan->protocol, vlan->id);
}

void add_network(const cni::NetworkList& list, std::vector<NetworkAddresses>& out) {
  for (const cni::PluginConf& named : list.plugins) {
    const cni::PluginConf plugin = effective(named);
    if (!plugin.conf->is_object()) continue;
    NetworkAddresses one{list.name, list.file, wire_of(*plugin.conf, facts_of(plugin.type)),
                         given_by(*plugin.conf, list.name, facts_of(ipam_type_of(plugin)))};
    if (facts_of(named.type).has(cni::Fact::kDelegates)) {
      for (Given& given : one.given.all) given.path.clear();
    }
    if (!one.given.all.empty()) out.push_back(std::move(one));
  }
}

// An operator may give the bridge its address, instead of isGateway.
bool has_address_there(const Node& node, const NetworkAddresses& one) {
  const Link* const bridge = node.link(one.wire->link);
  if (bridge == nullptr) return false;
  return std::ranges::any_of(node.addresses, [&](const netlink::LinkAddress& address) {
    return address.link == bridge->index &&
           std::ranges::any_of(one.given.all, [&](const auto& mine) {
             return overlap(address.cidr, mine.range.subnet);
           });
  });
}

}  // namespace

Segments::Segments(const Node& node) : node_(node), uplink_(default_link(node)) {}

Frames Segments::start_of(const Wire& wire) const {
  const std::string& named = wire.link.empty() ? uplink_ : wire.link;
  const Link* const there = node_.link(named);
  const std::string& link = there == nullptr ? named : there->name;
  const bool filters = there != nullptr && there->vlan_filtering;
  if (wire.kind == Wire::Kind::kBridge && (filters || wire.vlan != 0)) {
    const auto pvid = there != nullptr ? there->default_pvid : std::uint16_t{};
    return {link, {kInside | (wire.vlan != 0 ? wire.vlan : pvid)}};
  }
  if (wire.vlan == 0) return {link};
  return {link, {tag_of(wire.protocol, wire.vlan)}};
}

std::vector<PortVlan> Segments::vlans_of(const Link& port) const {
  const auto found = node_.port_vlans.find(port.index);
  return found == node_.port_vlans.end() ? std::vector<PortVlan>() : found->second;
}

// Links in other namespaces are unknown here.
void Segments::add_stack(const Link& link, const Frames& at, std::vector<Frames>& out) const {
  const bool has_parent = link.parent_index != 0 && !link.parent_nsid;
  if (const Link* const parent = has_parent ? node_.link(link.parent_index) : nullptr) {
    const auto tag = tag_of(link);
    if (tag) out.push_back({parent->name, with(*tag, at.tags)});
    if (!tag && (is_beside_parent(link) || link.kind == "vlan")) {
      out.push_back({parent->name, at.tags});
    }
  }
  for (const Link& one : node_.links) {
    if (one.parent_index != link.index || one.parent_nsid) continue;
    const auto tag = tag_of(one);
    if (tag && !at.tags.empty() && at.tags.front() == *tag) {
      out.push_back({one.name, without_first(at.tags)});
    } else if (!tag && (is_beside_parent(one) || one.kind == "vlan")) {
      out.push_back({one.name, at.tags});
    }
  }
  const bool has_peer = link.kind == "veth" && link.peer_index != 0 && !link.peer_nsid;
  if (const Link* const peer = has_peer ? node_.link(link.peer_index) : nullptr) {
    if (peer->kind == "veth" && peer->peer_index == link.index) {
      out.push_back({peer->name, at.tags});
    }
  }
}

// From a port into its bridge.
void Segments::add_bridge(const Link& port, const Link& bridge, const Frames& at,
                          std::vector<Frames>& out) const {
  if (!bridge.vlan_filtering) return out.push_back({bridge.name, at.tags});
  const std::uint32_t first = at.tags.empty() ? 0 : at.tags.front();
  const bool is_tagged = (first >> 16U) == Vlan::k8021q;
  for (const PortVlan& vlan : vlans_of(port)) {
    const auto id = static_cast<std::uint16_t>(first & 0xfffU);
    if (is_tagged && vlan.first <= id && id <= vlan.last) {
      out.push_back({bridge.name, with(kInside | id, without_first(at.tags))});
    } else if (!is_tagged && vlan.pvid) {
      out.push_back({bridge.name, with(kInside | vlan.first, at.tags)});
    }
  }
}

// From a bridge or bond to its ports, and to the link that stands for it.
void Segments::add_ports(const Link& link, const Frames& at, std::vector<Frames>& out) const {
  const std::uint32_t first = at.tags.empty() ? 0 : at.tags.front();
  const bool is_inside = (first & kInside) != 0;
  const auto id = static_cast<std::uint16_t>(first & 0xfffU);
  const auto outside = [&](bool is_untagged) {
    auto rest = without_first(at.tags);
    return is_untagged ? rest : with(tag_of(Vlan::k8021q, id), rest);
  };
  if (is_inside) out.push_back({link.name, outside(id == link.default_pvid)});
  if (link.vlan_filtering && !is_inside) {
    const bool is_tagged = (first >> 16U) == Vlan::k8021q;
    if (is_tagged) out.push_back({link.name, with(kInside | id, without_first(at.tags))});
    if (!is_tagged) out.push_back({link.name, with(kInside | link.default_pvid, at.tags)});
    return;
  }
  for (const Link& port : node_.links) {
    if (port.master != link.index || (port.kind == "veth" && port.peer_nsid)) continue;
    if (!is_inside) {
      out.push_back({port.name, at.tags});
      continue;
    }
    for (const PortVlan& vlan : vlans_of(port)) {
      if (vlan.first <= id && id <= vlan.last) out.push_back({port.name, outside(vlan.untagged)});
    }
  }
}

std::vector<Frames> Segments::next_to(const Frames& at) const {
  std::vector<Frames> out;
  const Link* const link = node_.link(at.link);
  if (link == nullptr) return out;
  const bool is_inside = !at.tags.empty() && (at.tags.front() & kInside) != 0;
  if (joins_ports(*link)) add_ports(*link, at, out);
  if (is_inside) return out;
  add_stack(*link, at, out);
  const Link* const master = link->master != 0 ? node_.link(link->master) : nullptr;
  if (master != nullptr && joins_ports(*master)) add_bridge(*link, *master, at, out);
  return out;
}

bool Segments::are_joined(const Wire& one, const Wire& other) const {
  if (one.kind == Wire::Kind::kNode || other.kind == Wire::Kind::kNode) return false;
  const Frames from = start_of(one), to = start_of(other);
  if (from.link.empty() || to.link.empty()) return have_one_name(one, other);
  std::set<Frames> seen{from};
  std::vector<Frames> left{from};
  while (!left.empty() && seen.size() < kMaxFrames) {
    const Frames at = std::move(left.back());
    left.pop_back();
    if (at == to) return true;
    for (Frames& next : next_to(at)) {
      if (next.tags.size() > kMaxTags || !seen.insert(next).second) continue;
      left.push_back(std::move(next));
    }
  }
  return false;
}

std::vector<NetworkAddresses> address_networks(const Node& node) {
  std::vector<NetworkAddresses> out;
  for (const cni::NetworkList& list : node.networks.lists) add_network(list, out);
  for (const cni::NetworkList& list : node.attached) add_network(list, out);
  for (NetworkAddresses& one : out) {
    if (one.wire && one.wire->kind == Wire::Kind::kBridge && !one.wire->is_routed) {
      one.wire->is_routed = has_address_there(node, one);
    }
  }
  return out;
}

}  // namespace tool::doctor
