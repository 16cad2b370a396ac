#include "cnitool/graph_formats.h"
#include "cnitool/graph_view.h"

namespace tool {

namespace {

/// A line of the tree, and what hangs on it.
struct Branch {
  std::string text;
  std::vector<std::string> more = {};  ///< lines below it
  std::vector<Branch> children = {};
};

void print(const Branch& node, const std::string& before, bool is_last, std::string& out) {
  out += cat(before, is_last ? "└─ " : "├─ ", node.text, "\n");
  const std::string below = cat(before, is_last ? "   " : "│  ");
  for (const std::string& line : node.more) {
    out += cat(below, node.children.empty() ? "   " : "│  ", line, "\n");
  }
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    print(node.children[i], below, i + 1 == node.children.size(), out);
  }
}

// "also net1 (lan)": the pod's interfaces that are below other segments.
void add_others(const PodBox& pod, const GraphPod& shown, std::vector<std::string>& to) {
  std::vector<std::string> out;
  for (const BoxedInterface& one : pod.interfaces) {
    if (one.of != &shown) out.push_back(cat(one.of->ifname, " (", one.of->network, ")"));
  }
  if (!out.empty()) to.push_back(cat("also ", joined(out)));
}

Branch node_of(const GraphPod& pod, const View& view, const Output& output) {
  constexpr std::size_t kWidth = 72;
  const std::string name = output.painted(Colour::kBold, pod.label());
  Branch out{cat("pod ", name, "  ", pod.network)};
  if (!pod.is_alive()) out.text += cat("  ", output.painted(Colour::kRed, pod.state));
  for (const std::string& line : broken_lines(pod.broken, 0)) {
    out.more.push_back(output.painted(Colour::kRed, line));
  }
  for (std::string& line : lines_of(pod, kWidth)) out.more.push_back(std::move(line));
  if (!pod.netns.empty()) out.more.push_back(pod.netns);
  const std::string id = cat("pod:", pod.container_id);
  if (const PodBox* const box = find_by(view.pods, &PodBox::id, id)) {
    add_others(*box, pod, out.more);
  }
  return out;
}

Branch node_of(const Segment& segment, const View& view, const Output& output) {
  const auto blank = segment.title.find(' ') + 1;
  Branch out{cat(segment.title.substr(0, blank),
                 output.painted(Colour::kBold, segment.title.substr(blank)))};
  if (!segment.fault.empty()) out.text += cat("  ", output.painted(Colour::kRed, segment.fault));
  out.more = segment.lines;
  if (!segment.uplinks.empty()) {
    out.more.push_back(
        cat("to ", joined(segment.uplinks), segment.masquerades ? ", masqueraded" : ""));
  }
  for (const std::string& line : broken_lines(segment.broken_out, 0)) {
    out.more.push_back(output.painted(Colour::kRed, line));
  }
  for (const GraphPod* const pod : segment.interfaces) {
    out.children.push_back(node_of(*pod, view, output));
  }
  for (const ForeignPort& one : segment.foreign) {
    out.children.push_back({cat(output.painted(Colour::kYellow, "foreign port "), one.name,
                                one.kind.empty() ? "" : cat(" (", one.kind, ")"), "  ", one.mac)});
  }
  return out;
}

}  // namespace

std::string graph_text(const Graph& graph, const Output& output) {
  const View view = view_of(graph);
  std::vector<Branch> nodes;
  for (const Uplink& one : graph.uplinks) {
    nodes.push_back({cat("uplink ", output.painted(Colour::kBold, one.name), "  ",
                         spaced(one.addresses), "  by ", spaced(one.gateways))});
  }
  for (const std::string& one : view.masters) {
    nodes.push_back({cat("link ", output.painted(Colour::kBold, one))});
  }
  for (const Segment& one : view.segments) nodes.push_back(node_of(one, view, output));
  std::string out = "node\n";
  for (std::size_t i = 0; i < nodes.size(); ++i) print(nodes[i], "", i + 1 == nodes.size(), out);
  return out;
}

}  // namespace tool
