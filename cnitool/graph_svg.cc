#include <algorithm>
#include <cmath>

#include "cnitool/graph_formats.h"

namespace tool {

namespace {

// Pixels. Whatever monospaced font there is, its characters are narrower than kChar at this size.
constexpr int kChar = 8, kLine = 18, kMargin = 24, kPadding = 12, kGap = 16, kRail = 28;
// Characters of a line, and cards side by side.
constexpr std::size_t kMinText = 26, kMaxText = 46, kColumns = 4;

constexpr const char* kStyle = R"(
  text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #24292f; }
  .title { font-weight: bold; }
  .faint { fill: #57606a; }
  .bad { fill: #b42318; }
  .page { fill: #ffffff; }
  .card { fill: #f6f8fa; stroke: #d0d7de; }
  .gone { fill: none; stroke: #b42318; stroke-dasharray: 5 4; }
  .foreign { fill: none; stroke: #9a6700; stroke-dasharray: 2 3; }
  .bridge { fill: #ddf4ff; stroke: #54aeff; }
  .uplink { fill: #dafbe1; stroke: #4ac26b; }
  .wire { fill: none; stroke: #54aeff; stroke-width: 1.5; }
  .way { fill: none; stroke: #4ac26b; stroke-width: 1.5; }
  .port { fill: #54aeff; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .faint { fill: #9da7b3; }
    .bad { fill: #ff7b72; }
    .page { fill: #0d1117; }
    .card { fill: #161b22; stroke: #30363d; }
    .gone { stroke: #ff7b72; }
    .foreign { stroke: #d29922; }
    .bridge { fill: #0c2d6b; stroke: #388bfd; }
    .uplink { fill: #04260f; stroke: #2ea043; }
    .wire { stroke: #388bfd; }
    .way { stroke: #2ea043; }
    .port { fill: #388bfd; }
  }
)";

struct Line {
  std::string text;
  const char* kind = "";  ///< a class of kStyle
};

/// A box with lines of text.
struct Card {
  const char* kind = "card";
  std::vector<Line> lines;
  bool wired = true;  ///< it is a port of the bridge
};

/// A bridge with its ports; without a title, what has no bridge.
struct Group {
  Card title;
  std::vector<Card> cards;
};

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// A character that is not ASCII may be twice as wide.
std::size_t width_of(const std::string& text) {
  std::size_t out = 0;
  for (const char c : text) {
    if (!is_continuation(c)) out += static_cast<unsigned char>(c) < 0x80 ? 1 : 2;
  }
  return out;
}

// A long text without its middle, where addresses and paths differ the least.
std::string shortened(const std::string& text, std::size_t most) {
  if (width_of(text) <= most) return text;
  std::vector<std::string> letters;
  for (const char c : text) {
    if (is_continuation(c) && !letters.empty()) {
      letters.back() += c;
    } else {
      letters.emplace_back(1, c);
    }
  }
  std::string head, tail;
  const std::size_t half = (most - 2) / 2;
  for (std::size_t i = 0; i < letters.size() && width_of(head + letters[i]) <= half; ++i) {
    head += letters[i];
  }
  for (std::size_t i = letters.size(); i-- > 0 && width_of(letters[i] + tail) <= half;) {
    tail.insert(0, letters[i]);
  }
  return cat(head, "…", tail);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
  }
  return out;
}

int height_of(const Card& card) {
  return 2 * kPadding + static_cast<int>(card.lines.size()) * kLine - (kLine - 12);
}

Card card_of(const GraphPod& pod) {
  constexpr std::size_t kMaxPortLines = 6;
  Card out{pod.is_alive() ? "card" : "gone", {}, !pod.bridge.empty()};
  out.lines.push_back({pod.label(), "title"});
  out.lines.push_back({cat("network ", pod.network), "faint"});
  if (!pod.is_alive()) out.lines.push_back({pod.state, "bad"});
  GraphPod without_ports = pod;
  without_ports.host_ports.clear();
  for (auto& line : lines_of(without_ports, kMaxText)) out.lines.push_back({std::move(line)});
  auto ports = wrapped("ports", pod.host_ports, kMaxText - 2);
  if (ports.size() > kMaxPortLines) {
    ports.resize(kMaxPortLines);
    ports.back() = cat("      and more: ", pod.host_ports.size(), " in all");
  }
  for (std::string& line : ports) out.lines.push_back({std::move(line)});
  return out;
}

Card card_of(const ForeignPort& port) {
  return {"foreign",
          {{port.name, "title"},
           {port.kind.empty() ? "foreign port" : cat("foreign port, ", port.kind), "faint"},
           {port.mac}}};
}

Card title_of(const GraphBridge& bridge) {
  Card out{bridge.is_there ? "bridge" : "gone", {{cat("bridge ", bridge.name), "title"}}};
  if (!bridge.is_there) out.lines.push_back({"does not exist", "bad"});
  if (bridge.is_there && !bridge.is_up) out.lines.push_back({"is down", "bad"});
  for (const std::string& address : bridge.addresses) out.lines.push_back({address});
  if (!bridge.mac.empty()) out.lines.push_back({bridge.mac, "faint"});
  for (std::string& line :
       wrapped(bridge.networks.size() > 1 ? "networks" : "network", bridge.networks, kMaxText)) {
    out.lines.push_back({std::move(line), "faint"});
  }
  if (bridge.masquerades) out.lines.push_back({"masqueraded", "faint"});
  return out;
}

Card card_of(const Uplink& uplink) {
  Card out{"uplink", {{cat("uplink ", uplink.name), "title"}}};
  for (const std::string& address : uplink.addresses) out.lines.push_back({address});
  for (const std::string& gateway : uplink.gateways) {
    out.lines.push_back({cat("default by ", gateway), "faint"});
  }
  return out;
}

/// Puts cards onto a page, from its top to its bottom.
class Page {
 public:
  Page(const std::vector<Card>& uplinks, const std::vector<Group>& groups) {
    std::size_t widest = kMinText, most = 1;
    const auto measure = [&widest](const Card& card) {
      for (const Line& line : card.lines) widest = std::max(widest, width_of(line.text));
    };
    for (const Card& card : uplinks) measure(card);
    for (const Group& group : groups) {
      measure(group.title);
      for (const Card& card : group.cards) measure(card);
      most = std::max(most, group.cards.size());
    }
    characters_ = std::min(widest, kMaxText);
    card_width_ = static_cast<int>(characters_) * kChar + 2 * kPadding;
    const auto square = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(most))));
    columns_ = static_cast<int>(std::clamp<std::size_t>(square, 1, kColumns));
  }

  std::string draw(const std::vector<Card>& uplinks, const std::vector<Group>& groups) {
    for (const Card& card : uplinks) {
      const int middle = y_ + height_of(card) / 2;
      ways_.push_back(middle);
      put(card, kMargin + kRail);
      y_ += height_of(card) + kGap;
    }
    if (uplinks.empty() && groups.empty()) {
      put({"card", {{"no pod is known", "faint"}}}, kMargin + kRail);
      y_ += kLine + 2 * kPadding + kGap;
    }
    for (const Group& group : groups) draw(group);
    if (!uplinks.empty() && ways_.size() > uplinks.size()) draw_rail();
    return whole();
  }

 private:
  int left_of(int column) const {
    return kMargin + kRail + kRail + column * (card_width_ + kGap + kRail);
  }

  void put(const Card& card, int x) {
    body_ += cat("<rect class=\"", card.kind, "\" x=\"", x, "\" y=\"", y_, "\" width=\"",
                 card_width_, "\" height=\"", height_of(card), "\" rx=\"6\"/>\n");
    int base = y_ + kPadding + 11;
    for (const Line& line : card.lines) {
      body_ += cat("<text", *line.kind == 0 ? "" : cat(" class=\"", line.kind, "\""), " x=\"",
                   x + kPadding, "\" y=\"", base, "\" xml:space=\"preserve\">",
                   escaped(shortened(line.text, characters_)), "</text>\n");
      base += kLine;
    }
    right_ = std::max(right_, x + card_width_);
  }

  // The bridge, and below it columns of cards; a wire goes down beside each.
  void draw(const Group& group) {
    y_ += kGap / 2;
    const bool has_title = !group.title.lines.empty();
    const int bottom = y_ + (has_title ? height_of(group.title) : 0);
    if (has_title) {
      if (group.title.kind == std::string_view("bridge")) ways_.push_back(y_ + kPadding + 6);
      put(group.title, kMargin + kRail);
      y_ = bottom + kGap;
    }
    const auto columns = static_cast<std::size_t>(columns_);
    std::vector<int> ends(columns, 0), tops(columns, y_);
    for (std::size_t i = 0; i < group.cards.size(); ++i) {
      const std::size_t column = i % columns;
      const Card& card = group.cards[i];
      y_ = tops[column];
      if (has_title && card.wired) ends[column] = wire(static_cast<int>(column));
      put(card, left_of(static_cast<int>(column)));
      tops[column] += height_of(card) + kGap;
    }
    hang(ends, bottom);
    y_ = *std::max_element(tops.begin(), tops.end()) + kGap;
  }

  // Draws from the column's wire to the card; returns the height.
  int wire(int column) {
    const int at = y_ + kPadding + 6;
    const int from = left_of(column) - kRail / 2;
    wires_ += cat("<path class=\"wire\" d=\"M", from, " ", at, "H", left_of(column), "\"/>\n");
    ports_ +=
        cat("<circle class=\"port\" cx=\"", left_of(column), "\" cy=\"", at, "\" r=\"3.5\"/>\n");
    return at;
  }

  // The wires of the columns, from a line below the bridge down to the last card of each.
  void hang(const std::vector<int>& ends, int bottom) {
    const int bus = bottom + kGap / 2;
    int last = 0;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i] == 0) continue;
      last = left_of(static_cast<int>(i)) - kRail / 2;
      wires_ += cat("<path class=\"wire\" d=\"M", last, " ", bus, "V", ends[i], "\"/>\n");
    }
    if (last == 0) return;
    const int first = left_of(0) - kRail / 2;
    wires_ += cat("<path class=\"wire\" d=\"M", first, " ", bottom, "V", bus, "H", last, "\"/>\n");
  }

  // Draws from the uplinks to all bridges, at the left.
  void draw_rail() {
    const int x = kMargin + kRail / 3;
    wires_ += cat("<path class=\"way\" d=\"M", x, " ", ways_.front(), "V", ways_.back(), "\"/>\n");
    for (const int y : ways_) {
      wires_ += cat("<path class=\"way\" d=\"M", x, " ", y, "H", kMargin + kRail, "\"/>\n");
    }
  }

  std::string whole() const {
    const int width = right_ + kMargin;
    const int height = y_ + kMargin - kGap;
    return cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height,
               "\" viewBox=\"0 0 ", width, " ", height, "\">\n<style>", kStyle,
               "</style>\n<rect class=\"page\" width=\"", width, "\" height=\"", height, "\"/>\n",
               wires_, body_, ports_, "</svg>\n");
  }

  std::size_t characters_ = 0;
  int card_width_ = 0, columns_ = 1;
  int y_ = kMargin, right_ = 0;
  std::vector<int> ways_;  // where uplinks and bridges meet the rail
  std::string wires_, body_, ports_;
};

}  // namespace

std::string graph_svg(const Graph& graph) {
  std::vector<Card> uplinks;
  for (const Uplink& one : graph.uplinks) uplinks.push_back(card_of(one));
  std::vector<Group> groups;
  const auto add_pods = [](const std::vector<GraphPod>& pods, Group& group) {
    for (const GraphPod& pod : pods) group.cards.push_back(card_of(pod));
  };
  for (const GraphBridge& one : graph.bridges) {
    Group& group = groups.emplace_back(Group{title_of(one), {}});
    add_pods(one.pods, group);
    for (const ForeignPort& port : one.foreign) group.cards.push_back(card_of(port));
  }
  if (!graph.others.empty()) add_pods(graph.others, groups.emplace_back());
  return Page(uplinks, groups).draw(uplinks, groups);
}

}  // namespace tool
