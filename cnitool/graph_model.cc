#include "cnitool/graph_model.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/cached.h"
#include "cnitool/json_at.h"
#include "cnitool/output.h"
#include "cnitool/pool.h"
#include "libcni/config/result.h"
#include "libcni/runtime/conflist.h"
#include "plugins/names/links.h"

namespace tool {

namespace {

using cni::CachedAttachment;
using netlink::Link;
using nlohmann::json;
using nlohmann::ordered_json;

// The network at ADD; without plugins where it is unreadable.
cni::NetworkList list_of(const CachedAttachment& one) try {
  return cni::list_from(one.config);
} catch (const cni::Error&) {
  return {};
}

std::string port_text(const HostPort& port) {
  const bool v6 = port.ip.find(':') != std::string::npos;
  return cat(v6                ? cat("[", port.ip, "]:")
             : port.ip.empty() ? ""
                               : cat(port.ip, ":"),
             port.host, " -> ", port.container, "/", port.protocol);
}

std::vector<std::string> ports_of(const CachedAttachment& one) {
  std::vector<std::string> out;
  for (const HostPort& port : host_ports_of(one)) out.push_back(port_text(port));
  return out;
}

std::string rate_text(double bits) {
  const char* unit = "bit/s";
  for (const char* larger : {"kbit/s", "Mbit/s", "Gbit/s"}) {
    if (bits < 1000) break;
    bits /= 1000;
    unit = larger;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %s", bits, unit);
  return text;
}

std::string limits_of(const CachedAttachment& one, const cni::NetworkList& list) {
  const json* limits = member(one.capabilities, "bandwidth");
  if (limits == nullptr) limits = plugin_with(cni::Fact::kRates, list);
  if (limits == nullptr) return {};
  std::string out;
  for (const auto& [key, word] : {std::pair("ingressRate", "in"), std::pair("egressRate", "out")}) {
    const double rate = number_at(*limits, key);
    if (rate > 0) out += cat(out.empty() ? "" : ", ", word, " ", rate_text(rate));
  }
  return out;
}

std::string policy_of(const cni::NetworkList& list) {
  const json* const firewall = plugin_with(cni::Fact::kPolicy, list);
  return firewall == nullptr ? "" : text_at(*firewall, "ingressPolicy", "open");
}

// The interfaces in the pod, and their addresses: its own, and further ones. An address without an
// interface, or of one on the node, is of its own.
void set_interfaces(GraphPod& pod, const cni::Result& result, const Seen& seen) {
  std::map<std::size_t, std::size_t> further;  // index in the result, index in pod.further
  for (std::size_t i = 0; i < result.interfaces.size(); ++i) {
    const cni::Interface& one = result.interfaces[i];
    if (one.sandbox.empty()) continue;
    if (one.name == pod.ifname) {
      pod.mac = one.mac;
      continue;
    }
    const auto kind = seen.kinds.find(one.name);
    further.emplace(i, pod.further.size());
    pod.further.push_back({.name = printable(one.name),
                           .mac = one.mac,
                           .kind = kind == seen.kinds.end() ? "" : printable(kind->second)});
  }
  for (const cni::Address& address : result.ips) {
    const auto of = address.interface ? further.find(*address.interface) : further.end();
    auto& to = of == further.end() ? pod.addresses : pod.further[of->second].addresses;
    to.push_back(address.cidr.str());
  }
}

// The host veth: of the veths that the result names, the one with that address.
const Link* host_end_of(const cni::Result& result, const KernelState& kernel) {
  for (const cni::Interface& one : result.interfaces) {
    if (!one.sandbox.empty()) continue;
    const Link* const link = kernel.find(one.name);
    if (link != nullptr && link->kind == "veth" && link->mac.str() == one.mac) return link;
  }
  return nullptr;
}

GraphPod pod_of(const CachedAttachment& one, const cni::NetworkList& list,
                const KernelState& kernel, Look look) {
  const cni::Result result = result_of(one);
  const Seen seen = look(one);
  const json* const first = list.plugins.empty() ? nullptr : &*list.plugins.front().conf;
  GraphPod out{.network = one.key.network,
               .container_id = one.key.container_id,
               .ifname = one.key.ifname,
               .netns = one.netns,
               .name = pod_name_of(one),
               .state = seen.state,
               .type = list.plugins.empty() ? "" : list.plugins.front().type,
               .master = printable(seen.master),
               .port_of = printable(seen.port_of),
               .vrf = printable(seen.vrf),
               .host_ports = ports_of(one),
               .limits = limits_of(one, list),
               .masqueraded = first != nullptr && is_true(*first, "ipMasq"),
               .policy = policy_of(list),
               .lease = seen.lease};
  set_interfaces(out, result, seen);
  const Link* const host_end = host_end_of(result, kernel);
  if (host_end == nullptr) return out;
  out.host_end = printable(host_end->name);
  const Link* const master = host_end->master == 0 ? nullptr : kernel.find(host_end->master);
  if (master != nullptr) out.bridge = master->name;
  return out;
}

// The bridge that the attachment is meant to be on; empty where it is of another kind.
std::string wanted_bridge(const cni::NetworkList& list) {
  const json* const conf = plugin_with(cni::Fact::kBridge, list);
  return conf == nullptr ? "" : text_at(*conf, "bridge", names::kDefaultBridge);
}

GraphBridge bridge_of(const std::string& name, const KernelState& kernel) {
  GraphBridge out{.name = name};
  const Link* const link = kernel.find(name);
  if (link == nullptr || link->kind != "bridge") return out;
  out.is_there = true;
  out.is_up = link->up;
  out.mtu = link->mtu;
  out.mac = link->mac.str();
  out.addresses = kernel.addresses_of(link->index);
  for (const Link& vlan : kernel.links) {  // the gateways of access VLANs
    if (!vlan.name.starts_with(name + ".") || vlan.kind != "veth") continue;
    for (const auto& text : kernel.addresses_of(vlan.index)) {
      out.addresses.push_back(cat(text, " (", vlan.name, ")"));
    }
  }
  return out;
}

bool is_vlan_gateway(const Link& port, const std::string& bridge, const KernelState& kernel) {
  if (port.kind != "veth" || port.peer_nsid) return false;  // the index is another namespace's
  const Link* const peer = kernel.find(port.peer_index);
  return peer != nullptr && peer->peer_index == port.index && peer->name.starts_with(bridge + ".");
}

void add_foreign(GraphBridge& bridge, const KernelState& kernel,
                 const std::set<std::string>& known) {
  const Link* const link = kernel.find(bridge.name);
  if (link == nullptr || !bridge.is_there) return;
  for (const Link& port : kernel.links) {
    if (port.master != link->index || known.contains(port.name)) continue;
    if (is_vlan_gateway(port, bridge.name, kernel)) continue;
    bridge.foreign.push_back({printable(port.name), port.kind, port.mac.str()});
  }
}

std::vector<Uplink> uplinks_of(const KernelState& kernel) {
  constexpr std::uint32_t kMain = 254;
  std::map<int, Uplink> found;
  for (const netlink::LinkRoute& route : kernel.routes) {
    if (!route.dst.is_default() || route.table != kMain) continue;
    const Link* const link = kernel.find(route.link);
    if (link == nullptr) continue;
    Uplink& uplink = found[link->index];
    uplink.name = printable(link->name);
    uplink.mac = link->mac.str();
    if (route.gateway) uplink.gateways.push_back(route.gateway->str());
  }
  std::vector<Uplink> out;
  for (auto& [index, uplink] : found) {
    uplink.addresses = kernel.addresses_of(index);
    out.push_back(std::move(uplink));
  }
  return out;
}

ordered_json json_of(const std::optional<DhcpLease>& lease) {
  if (!lease) return nullptr;
  const auto& expire = lease->expire;
  return {{"address", lease->address},
          {"server", lease->server},
          {"expire", expire ? ordered_json(*expire) : ordered_json()}};
}

ordered_json json_of(const std::vector<GraphInterface>& interfaces) {
  auto out = ordered_json::array();
  for (const GraphInterface& one : interfaces) {
    out.push_back(
        {{"name", one.name}, {"mac", one.mac}, {"kind", one.kind}, {"addresses", one.addresses}});
  }
  return out;
}

ordered_json json_of(const GraphPod& pod) {
  ordered_json out{{"network", pod.network},
                   {"containerID", pod.container_id},
                   {"podName", pod.name},
                   {"ifname", pod.ifname},
                   {"netns", pod.netns},
                   {"state", pod.state},
                   {"mac", pod.mac},
                   {"hostEnd", pod.host_end},
                   {"bridge", pod.bridge},
                   {"type", pod.type},
                   {"master", pod.master},
                   {"portOf", pod.port_of},
                   {"vrf", pod.vrf},
                   {"addresses", pod.addresses},
                   {"furtherInterfaces", json_of(pod.further)},
                   {"hostPorts", pod.host_ports},
                   {"limits", pod.limits},
                   {"masqueraded", pod.masqueraded},
                   {"policy", pod.policy},
                   {"lease", json_of(pod.lease)}};
  if (!pod.broken.empty()) out["broken"] = pod.broken;
  if (!pod.broken_out.empty()) out["brokenOut"] = pod.broken_out;
  return out;
}

ordered_json json_of(const std::vector<GraphPod>& pods) {
  auto out = ordered_json::array();
  for (const GraphPod& pod : pods) out.push_back(json_of(pod));
  return out;
}

ordered_json json_of(const GraphBridge& bridge) {
  auto foreign = ordered_json::array();
  for (const ForeignPort& one : bridge.foreign) {
    foreign.push_back({{"name", one.name}, {"kind", one.kind}, {"mac", one.mac}});
  }
  return {{"name", bridge.name},
          {"isThere", bridge.is_there},
          {"isUp", bridge.is_up},
          {"mac", bridge.mac},
          {"mtu", bridge.mtu},
          {"addresses", bridge.addresses},
          {"networks", bridge.networks},
          {"masquerades", bridge.masquerades},
          {"pods", json_of(bridge.pods)},
          {"foreignPorts", foreign}};
}

ordered_json json_of(const GraphPool& pool) {
  auto blocks = ordered_json::array();
  for (const GraphPool::Block& one : pool.blocks) {
    blocks.push_back(
        {{"cidr", one.cidr}, {"state", one.state}, {"used", one.used}, {"size", one.size}});
  }
  auto sets = ordered_json::array();
  for (const GraphPool::Set& one : pool.sets) {
    sets.push_back({{"subnets", one.subnets}, {"claimed", one.claimed}, {"total", one.total}});
  }
  return {{"network", pool.network},
          {"blocks", blocks},
          {"claimed", pool.claimed},
          {"total", pool.total},
          {"sets", sets}};
}

}  // namespace

std::vector<std::string> KernelState::addresses_of(int index) const {
  std::vector<std::string> out;
  for (const netlink::LinkAddress& one : addresses) {
    if (one.link == index && !one.cidr.ip.is_link_local()) out.push_back(one.cidr.str());
  }
  return out;
}

KernelState KernelState::read() {
  netlink::RouteSocket socket;
  KernelState out{.links = socket.links(), .addresses = socket.addresses(), .routes = {}};
  for (const auto family : netlink::kFamilies) {
    for (const auto& route : socket.routes(family)) out.routes.push_back(route);
  }
  return out;
}

std::string GraphPod::label() const {
  if (!name.empty()) return name;
  constexpr std::size_t kLength = 12;
  constexpr std::size_t kDigits = 64;  // what runtimes make
  return container_id.size() == kDigits ? container_id.substr(0, kLength) : container_id;
}

Graph graph_of(const std::vector<CachedAttachment>& attachments, const KernelState& kernel,
               Look look) {
  Graph out{.uplinks = uplinks_of(kernel), .bridges = {}, .others = {}};
  std::map<std::string, GraphBridge> bridges;
  std::set<std::string> known;
  for (const CachedAttachment& one : attachments) {
    const cni::NetworkList list = list_of(one);
    GraphPod pod = pod_of(one, list, kernel, look);
    if (!pod.host_end.empty()) known.insert(pod.host_end);
    const std::string place = pod.bridge.empty() ? wanted_bridge(list) : pod.bridge;
    if (place.empty()) {
      out.others.push_back(std::move(pod));
      continue;
    }
    const auto [it, is_new] = bridges.try_emplace(place);
    if (is_new) it->second = bridge_of(place, kernel);
    GraphBridge& bridge = it->second;
    bridge.masquerades = bridge.masquerades || pod.masqueraded;
    auto& networks = bridge.networks;
    if (std::ranges::find(networks, pod.network) == networks.end()) {
      networks.push_back(pod.network);
    }
    bridge.pods.push_back(std::move(pod));
  }
  for (auto& [name, bridge] : bridges) {
    add_foreign(bridge, kernel, known);
    out.bridges.push_back(std::move(bridge));
  }
  return out;
}

void keep_only(const std::set<std::string>& containers, Graph& graph) {
  const auto is_other = [&](const GraphPod& pod) { return !containers.contains(pod.container_id); };
  std::erase_if(graph.others, is_other);
  for (GraphBridge& bridge : graph.bridges) {
    std::erase_if(bridge.pods, is_other);
    bridge.foreign.clear();
  }
  std::erase_if(graph.bridges, [](const GraphBridge& bridge) { return bridge.pods.empty(); });
}

ordered_json json_of(const Graph& graph) {
  ordered_json out{{"uplinks", ordered_json::array()}, {"bridges", ordered_json::array()}};
  for (const Uplink& one : graph.uplinks) {
    out["uplinks"].push_back({{"name", one.name},
                              {"mac", one.mac},
                              {"addresses", one.addresses},
                              {"gateways", one.gateways}});
  }
  for (const GraphBridge& one : graph.bridges) out["bridges"].push_back(json_of(one));
  out["others"] = json_of(graph.others);
  out["pools"] = ordered_json::array();
  for (const GraphPool& one : graph.pools) out["pools"].push_back(json_of(one));
  return out;
}

}  // namespace tool
