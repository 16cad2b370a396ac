#include <algorithm>

#include "cnitool/graph_formats.h"
#include "libcni/config/names.h"

namespace tool {

namespace {

/// A line of the tree, and what hangs on it.
struct Node {
  std::string text;
  std::vector<std::string> more = {};  ///< lines below it
  std::vector<Node> children = {};
};

void print(const Node& node, const std::string& before, bool is_last, std::string& out) {
  out += cat(before, is_last ? "└─ " : "├─ ", node.text, "\n");
  const std::string below = cat(before, is_last ? "   " : "│  ");
  for (const std::string& line : node.more) {
    out += cat(below, node.children.empty() ? "   " : "│  ", line, "\n");
  }
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    print(node.children[i], below, i + 1 == node.children.size(), out);
  }
}

Node node_of(const GraphPod& pod, const Output& output) {
  constexpr std::size_t kWidth = 72;
  const std::string name = output.painted(Colour::kBold, pod.label());
  Node out{cat("pod ", name, "  ", pod.network)};
  if (!pod.is_alive()) out.text += cat("  ", output.painted(Colour::kRed, pod.state));
  out.more = lines_of(pod, kWidth);
  return out;
}

std::string state_of(const GraphBridge& bridge) {
  if (!bridge.is_there) return "does not exist";
  return bridge.is_up ? "" : "down";
}

Node node_of(const GraphBridge& bridge, const Output& output) {
  const std::string state = state_of(bridge);
  Node out{cat("bridge ", output.painted(Colour::kBold, bridge.name))};
  if (!bridge.addresses.empty()) out.text += cat("  ", spaced(bridge.addresses));
  if (!bridge.mac.empty()) out.text += cat("  ", bridge.mac);
  if (!state.empty()) out.text += cat("  ", output.painted(Colour::kRed, state));
  out.more.push_back(
      cat("networks: ", spaced(bridge.networks), bridge.masquerades ? ", masqueraded" : ""));
  for (const GraphPod& pod : bridge.pods) out.children.push_back(node_of(pod, output));
  for (const ForeignPort& one : bridge.foreign) {
    out.children.push_back({cat(output.painted(Colour::kYellow, "foreign port "), one.name,
                                one.kind.empty() ? "" : cat(" (", one.kind, ")"), "  ", one.mac)});
  }
  return out;
}

}  // namespace

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

std::vector<std::string> lines_of(const GraphPod& pod, std::size_t width) {
  std::vector<std::string> out;
  std::string link = pod.ifname;
  if (!pod.mac.empty()) link += cat(" ", pod.mac);
  out.push_back(link);
  if (!pod.host_end.empty()) {
    out.push_back(
        cat("at ", pod.host_end, pod.bridge.empty() ? ", which is no bridge's port" : ""));
  }
  // The other end of a veth says enough.
  if (pod.host_end.empty() && !pod.type.empty() && !cni::stands_for(pod.type, "bridge")) {
    out.push_back(cat(pod.type, pod.master.empty() ? "" : cat(" on ", pod.master),
                      pod.port_of.empty() ? "" : cat(", port of ", pod.port_of, " in the pod")));
  }
  if (!pod.vrf.empty()) out.push_back(cat("VRF ", pod.vrf));
  for (const std::string& address : pod.addresses) out.push_back(address);
  if (pod.lease) out.push_back(cat("lease ", describe(*pod.lease)));
  if (!pod.netns.empty()) out.push_back(pod.netns);
  for (std::string& line : wrapped("ports", pod.host_ports, width)) out.push_back(std::move(line));
  if (!pod.limits.empty()) out.push_back(cat("limits ", pod.limits));
  if (!pod.policy.empty()) out.push_back(cat("policy ", pod.policy));
  return out;
}

std::string graph_text(const Graph& graph, const Output& output) {
  std::vector<Node> nodes;
  for (const Uplink& one : graph.uplinks) {
    nodes.push_back({cat("uplink ", output.painted(Colour::kBold, one.name), "  ",
                         spaced(one.addresses), "  by ", spaced(one.gateways))});
  }
  for (const GraphBridge& one : graph.bridges) nodes.push_back(node_of(one, output));
  if (!graph.others.empty()) {
    Node others{"without a bridge"};
    for (const GraphPod& pod : graph.others) others.children.push_back(node_of(pod, output));
    nodes.push_back(std::move(others));
  }
  std::string out = "node\n";
  for (std::size_t i = 0; i < nodes.size(); ++i) print(nodes[i], "", i + 1 == nodes.size(), out);
  return out;
}

}  // namespace tool
