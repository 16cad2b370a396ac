#include "cnitool/graph_formats.h"

namespace tool {

namespace {

// Escapes what would end a text or a line in DOT, or the display of this one.
std::string quoted(const std::vector<std::string>& lines) {
  std::string out = "\"";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += "\\n";
    for (const char c : lines[i]) {
      if (c == '"' || c == '\\') out += '\\';
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return out + '"';
}

std::string id_of(const GraphPod& pod) {
  return quoted({cat("pod:", pod.network, "/", pod.container_id, "/", pod.ifname)});
}

std::string node_of(const GraphPod& pod) {
  constexpr std::size_t kWidth = 44;
  std::vector<std::string> lines{cat(pod.label(), "  ", pod.network)};
  if (!pod.is_alive()) lines.push_back(cat("(", pod.state, ")"));
  for (std::string& line : lines_of(pod, kWidth)) lines.push_back(std::move(line));
  const char* const style = pod.is_alive() ? "" : ", style=dashed, color=gray50, fontcolor=gray50";
  return cat("  ", id_of(pod), " [shape=box, label=", quoted(lines), style, "];\n");
}

std::string edge(const std::string& from, const std::string& to, const std::string& label) {
  return cat("  ", from, " -- ", to, label.empty() ? "" : cat(" [label=", quoted({label}), "]"),
             ";\n");
}

std::string bridge_id(const std::string& name) { return quoted({cat("link:", name)}); }

std::string part_of(const GraphBridge& bridge) {
  std::vector<std::string> lines{cat("bridge ", bridge.name)};
  if (!bridge.is_there) lines.emplace_back("(does not exist)");
  for (const std::string& address : bridge.addresses) lines.push_back(address);
  if (!bridge.mac.empty()) lines.push_back(bridge.mac);
  lines.push_back(cat("networks ", spaced(bridge.networks)));
  const std::string id = bridge_id(bridge.name);
  std::string out =
      cat("  ", id, " [shape=box, style=\"rounded,bold\", label=", quoted(lines), "];\n");
  for (const GraphPod& pod : bridge.pods) {
    out += node_of(pod);
    if (!pod.bridge.empty()) out += edge(id, id_of(pod), pod.host_end);
  }
  for (const ForeignPort& one : bridge.foreign) {
    const std::string port = bridge_id(one.name);
    out += cat("  ", port, " [shape=box, style=dotted, label=",
               quoted({cat("foreign port ", one.name), one.mac}), "];\n", edge(id, port, ""));
  }
  return out;
}

}  // namespace

std::string graph_dot(const Graph& graph) {
  std::string out =
      "graph {\n  rankdir=LR;\n  node [fontname=monospace, fontsize=10];\n"
      "  edge [fontname=monospace, fontsize=9];\n";
  for (const Uplink& one : graph.uplinks) {
    std::vector<std::string> lines{cat("uplink ", one.name)};
    for (const std::string& address : one.addresses) lines.push_back(address);
    out += cat("  ", bridge_id(one.name), " [shape=box, style=bold, label=", quoted(lines), "];\n");
  }
  for (const GraphBridge& one : graph.bridges) {
    out += part_of(one);
    for (const Uplink& uplink : graph.uplinks) {
      out +=
          edge(bridge_id(uplink.name), bridge_id(one.name), one.masquerades ? "masqueraded" : "");
    }
  }
  for (const GraphPod& pod : graph.others) {
    out += node_of(pod);
    if (find_by(graph.uplinks, &Uplink::name, pod.master) == nullptr) continue;
    out += edge(bridge_id(pod.master), id_of(pod), pod.type);
  }
  return out + "}\n";
}

}  // namespace tool
