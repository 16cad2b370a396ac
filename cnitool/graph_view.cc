#include "cnitool/graph_view.h"

#include <algorithm>

#include "cnitool/known_plugins.h"
#include "cnitool/output.h"

namespace tool {

namespace {

void add_new(std::vector<std::string>& to, const std::string& text) {
  if (!text.empty() && std::ranges::find(to, text) == to.end()) to.push_back(text);
}

bool is_in_pod(const std::string& master) { return master.ends_with(" in the pod"); }

std::vector<std::string> names_of(const std::vector<Uplink>& uplinks) {
  std::vector<std::string> out;
  for (const Uplink& one : uplinks) out.push_back(one.name);
  return out;
}

Segment segment_of(const GraphBridge& bridge, const std::vector<Uplink>& uplinks) {
  Segment out{.id = link_id(bridge.name), .title = cat("bridge ", bridge.name)};
  if (!bridge.is_there) out.fault = "does not exist";
  if (bridge.is_there && !bridge.is_up) out.fault = "is down";
  out.lines = bridge.addresses;
  if (!bridge.mac.empty()) out.lines.push_back(bridge.mac);
  const char* const noun = bridge.networks.size() == 1 ? "network " : "networks ";
  out.lines.push_back(cat(noun, joined(bridge.networks)));
  if (bridge.is_there) out.uplinks = names_of(uplinks);
  out.masquerades = bridge.masquerades;
  for (const GraphPod& pod : bridge.pods) {
    out.interfaces.push_back(&pod);
    if (out.broken_out.empty()) out.broken_out = pod.broken_out;
  }
  out.foreign = bridge.foreign;
  return out;
}

// \param pod is the first of the network.
Segment segment_of(const GraphPod& pod) {
  Segment out{.id = cat("network:", pod.network), .title = cat("network ", pod.network)};
  out.lines.push_back(pod.type.empty() ? "of an unknown plugin" : pod.type);
  return out;
}

// The node routes to them, or they are on their master's segment.
void add_to(Segment& segment, const GraphPod& pod, const std::vector<Uplink>& uplinks) {
  segment.interfaces.push_back(&pod);
  segment.masquerades = segment.masquerades || pod.masqueraded;
  if (segment.broken_out.empty()) segment.broken_out = pod.broken_out;
  if (facts_of(pod.type).has(cni::Fact::kRouted)) segment.uplinks = names_of(uplinks);
  if (is_in_pod(pod.master)) return;
  add_new(segment.masters, pod.master);
  if (!segment.masters.empty()) {
    segment.lines.front() = cat(pod.type, " on ", joined(segment.masters));
  }
}

// The blocks of its networks that this node has.
void add_pools(Segment& segment, const std::vector<std::string>& networks,
               const std::vector<GraphPool>& pools) {
  constexpr std::size_t kMost = 4;
  for (const GraphPool& pool : pools) {
    if (std::ranges::find(networks, pool.network) == networks.end()) continue;
    for (const std::string& line : pool.lines) {
      segment.lines.push_back(cat("pool: ", line, " claimed"));
    }
    for (std::size_t i = 0; i < std::min(pool.blocks.size(), kMost); ++i) {
      const GraphPool::Block& one = pool.blocks[i];
      segment.lines.push_back(cat(one.cidr, one.state == "held" ? "" : cat(" ", one.state), " ",
                                  one.used, "/", one.size));
    }
    if (pool.blocks.size() > kMost) {
      segment.lines.push_back(cat("and ", counted(pool.blocks.size() - kMost, "more block")));
    }
  }
}

}  // namespace

bool PodBox::is_alive() const {
  return std::ranges::any_of(interfaces,
                             [](const BoxedInterface& one) { return one.of->is_alive(); });
}

View view_of(const Graph& graph) {
  View out;
  for (const GraphBridge& one : graph.bridges) {
    out.segments.push_back(segment_of(one, graph.uplinks));
    add_pools(out.segments.back(), one.networks, graph.pools);
  }
  for (const GraphPod& pod : graph.others) {
    const std::string id = cat("network:", pod.network);
    auto at =
        std::ranges::find_if(out.segments, [&id](const Segment& one) { return one.id == id; });
    if (at == out.segments.end()) {
      at = out.segments.insert(at, segment_of(pod));
      add_pools(*at, {pod.network}, graph.pools);
    }
    add_to(*at, pod, graph.uplinks);
  }
  for (std::size_t i = 0; i < out.segments.size(); ++i) {
    for (const GraphPod* const pod : out.segments[i].interfaces) {
      const std::string id = cat("pod:", pod->container_id);
      auto at = std::ranges::find_if(out.pods, [&id](const PodBox& one) { return one.id == id; });
      if (at == out.pods.end()) at = out.pods.insert(at, {id, pod->label()});
      at->interfaces.push_back({pod, i});
    }
    for (const std::string& master : out.segments[i].masters) {
      if (find_by(graph.uplinks, &Uplink::name, master) == nullptr) add_new(out.masters, master);
    }
  }
  return out;
}

std::string link_id(const std::string& name) { return cat("link:", name); }

std::string spaced(const std::vector<std::string>& texts) { return joined(texts, " "); }

std::vector<std::string> wrapped(const std::string& heading, const std::vector<std::string>& texts,
                                 std::size_t width) {
  std::vector<std::string> out;
  std::string line = heading;
  bool is_fresh = true;
  for (const std::string& text : texts) {
    if (!is_fresh && line.size() + 2 + text.size() > width) {
      out.push_back(line + ",");
      line = std::string(heading.size(), ' ');
      is_fresh = true;
    }
    line += cat(is_fresh ? " " : ", ", text);
    is_fresh = false;
  }
  if (!texts.empty()) out.push_back(line);
  return out;
}

std::vector<std::string> broken_lines(const std::string& cause, std::size_t width) {
  std::vector<std::string> out;
  if (cause.empty()) return out;
  std::string rest = folded(cat("broken: ", cause), 0, width);
  for (std::size_t end = 0; end != std::string::npos;) {
    end = rest.find('\n');
    out.push_back(rest.substr(0, end));
    rest.erase(0, end == std::string::npos ? end : end + 1);
  }
  return out;
}

std::vector<std::string> lines_of(const GraphPod& pod, std::size_t width) {
  std::vector<std::string> out{pod.mac.empty() ? pod.ifname : cat(pod.ifname, " ", pod.mac)};
  const bool is_lost = pod.bridge.empty() && facts_of(pod.type).has(cni::Fact::kBridge);
  if (!pod.host_end.empty()) {
    out.push_back(cat("at ", pod.host_end, is_lost ? ", which is no bridge's port" : ""));
  }
  if (is_in_pod(pod.master)) out.push_back(cat(pod.type, " on ", pod.master));
  if (!pod.port_of.empty()) out.push_back(cat(pod.type, ", port of ", pod.port_of, " in the pod"));
  if (!pod.vrf.empty()) out.push_back(cat("VRF ", pod.vrf));
  for (const std::string& address : pod.addresses) out.push_back(address);
  if (pod.lease) out.push_back(cat("lease ", describe(*pod.lease)));
  for (std::string& line : wrapped("ports", pod.host_ports, width)) out.push_back(std::move(line));
  if (!pod.limits.empty()) out.push_back(cat("limits ", pod.limits));
  if (!pod.policy.empty()) out.push_back(cat("policy ", pod.policy));
  for (const GraphInterface& one : pod.further) {
    out.push_back(cat(one.name, one.mac.empty() ? "" : " ", one.mac));
    if (!one.kind.empty()) out.push_back(one.kind);
    out.insert(out.end(), one.addresses.begin(), one.addresses.end());
  }
  return out;
}

}  // namespace tool
