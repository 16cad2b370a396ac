#include "cnitool/graph_formats.h"
#include "cnitool/graph_view.h"

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

constexpr std::size_t kDotWidth = 44;

std::string box(const std::string& id, const std::vector<std::string>& lines,
                const std::string& style) {
  return cat("  ", quoted({id}), " [shape=box, ", style, "label=", quoted(lines), "];\n");
}

struct Edge {
  std::string label = {};
  std::string broken = {};  ///< the cause; empty: it is passed
};

std::string edge(const std::string& from, const std::string& to, const Edge& line) {
  std::vector<std::string> lines = broken_lines(line.broken, kDotWidth);
  if (!line.label.empty()) lines.insert(lines.begin(), line.label);
  const char* const style = line.broken.empty() ? "" : "style=dashed, color=red, fontcolor=red, ";
  return cat("  ", quoted({from}), " -- ", quoted({to}),
             lines.empty() ? "" : cat(" [", style, "label=", quoted(lines), "]"), ";\n");
}

std::string part_of(const PodBox& pod, const View& view) {
  std::vector<std::string> lines{pod.label};
  const std::string& netns = pod.interfaces.front().of->netns;
  if (!netns.empty()) lines.push_back(netns);
  std::string edges;
  for (const auto& [one, segment] : pod.interfaces) {
    auto more = lines_of(*one, kDotWidth);
    more.insert(more.begin() + 1, cat("network ", one->network));
    if (!one->is_alive()) more.insert(more.begin() + 2, cat("(", one->state, ")"));
    lines.insert(lines.end(), more.begin(), more.end());
    const Segment& of = view.segments[segment];
    if (of.reaches(*one)) edges += edge(of.id, pod.id, {one->ifname, one->broken});
  }
  const char* const style = pod.is_alive() ? "" : "style=dashed, color=gray50, fontcolor=gray50, ";
  return box(pod.id, lines, style) + edges;
}

std::string part_of(const Segment& segment) {
  std::vector<std::string> lines{segment.title};
  if (!segment.fault.empty()) lines.push_back(cat("(", segment.fault, ")"));
  lines.insert(lines.end(), segment.lines.begin(), segment.lines.end());
  std::string out = box(segment.id, lines, "style=\"rounded,bold\", ");
  for (const std::string& uplink : segment.uplinks) {
    out += edge(link_id(uplink), segment.id,
                {segment.masquerades ? "masqueraded" : "", segment.broken_out});
  }
  for (const std::string& master : segment.masters) out += edge(link_id(master), segment.id, {});
  for (const ForeignPort& one : segment.foreign) {
    out += box(link_id(one.name), {cat("foreign port ", one.name), one.mac}, "style=dotted, ") +
           edge(segment.id, link_id(one.name), {});
  }
  return out;
}

}  // namespace

std::string graph_dot(const Graph& graph) {
  const View view = view_of(graph);
  std::string out =
      "graph {\n  rankdir=LR;\n  node [fontname=monospace, fontsize=10];\n"
      "  edge [fontname=monospace, fontsize=9];\n";
  for (const Uplink& one : graph.uplinks) {
    std::vector<std::string> lines{cat("uplink ", one.name)};
    lines.insert(lines.end(), one.addresses.begin(), one.addresses.end());
    for (const std::string& gateway : one.gateways) lines.push_back(cat("default by ", gateway));
    out += box(link_id(one.name), lines, "style=bold, ");
  }
  for (const std::string& one : view.masters) {
    out += box(link_id(one), {cat("link ", one)}, "style=bold, ");
  }
  for (const Segment& one : view.segments) out += part_of(one);
  for (const PodBox& one : view.pods) out += part_of(one, view);
  return out + "}\n";
}

}  // namespace tool
