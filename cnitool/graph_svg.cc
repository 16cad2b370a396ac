#include <algorithm>
#include <cmath>

#include "cnitool/graph_formats.h"
#include "cnitool/graph_view.h"
#include "cnitool/output.h"

namespace tool {

namespace {

// Pixels. Whatever monospaced font there is, its characters are narrower than kChar at this size.
constexpr int kChar = 8, kLine = 18, kMargin = 24, kPadding = 12, kGap = 16, kLane = 14;
constexpr int kMaxWidth = 1900;
// Characters of a line, and boxes of pods side by side.
constexpr std::size_t kMinText = 26, kMaxText = 46, kColumns = 3;

constexpr const char* kStyle = R"(
  text { font: 12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #24292f; }
  .title { font-weight: bold; }
  .faint { fill: #57606a; }
  .bad { fill: #b42318; }
  .page { fill: #ffffff; }
  .card { fill: #f6f8fa; stroke: #d0d7de; }
  .gone { fill: none; stroke: #b42318; stroke-dasharray: 5 4; }
  .foreign { fill: none; stroke: #9a6700; stroke-dasharray: 2 3; }
  .bridge { fill: #ddf4ff; stroke-width: 1.5; }
  .uplink { fill: #dafbe1; stroke: #4ac26b; }
  path { fill: none; stroke-width: 1.5; }
  .way { stroke: #4ac26b; }
  .broken { stroke: #b42318; stroke-dasharray: 3 3; }
  .on { stroke: #8c959f; }
  .s0 { stroke: #2f81f7; }
  .s1 { stroke: #db61a2; }
  .s2 { stroke: #d29922; }
  .s3 { stroke: #a371f7; }
  .s4 { stroke: #f0883e; }
  .s5 { stroke: #1f9ea3; }
  circle { fill: #ffffff; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .faint { fill: #9da7b3; }
    .bad { fill: #ff7b72; }
    .page { fill: #0d1117; }
    .card { fill: #161b22; stroke: #30363d; }
    .gone { stroke: #ff7b72; }
    .foreign { stroke: #d29922; }
    .bridge { fill: #0c2d6b; }
    .uplink { fill: #04260f; stroke: #2ea043; }
    .way { stroke: #2ea043; }
    .broken { stroke: #ff7b72; }
    circle { fill: #0d1117; }
  }
)";

struct Line {
  std::string text;
  const char* kind = "";   ///< a class of kStyle
  int segment = -1;        ///< its line ends here; -1: none
  bool is_broken = false;  ///< the line is
};

/// A box with lines of text.
struct Card {
  std::string kind = "card";
  std::vector<Line> lines = {};
};

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// A character that is not ASCII may be twice as wide.
std::size_t width_of(const std::string& text) {
  std::size_t out = 0;
  for (const char c : text) {
    if (!continues(c)) out += static_cast<unsigned char>(c) < 0x80 ? 1 : 2;
  }
  return out;
}

// A long text without its middle, where addresses and paths differ the least.
std::string shortened(const std::string& text, std::size_t most) {
  if (width_of(text) <= most) return text;
  std::vector<std::string> letters;
  for (const char c : text) {
    if (continues(c) && !letters.empty()) {
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

std::vector<Line> lines_with_kinds(const GraphPod& pod) {
  constexpr std::size_t kMaxPortLines = 6;
  GraphPod without_ports = pod;
  without_ports.host_ports.clear();
  std::vector<Line> out;
  for (auto& line : lines_of(without_ports, kMaxText)) out.push_back({std::move(line)});
  out.insert(out.begin() + 1, {cat("network ", pod.network), "faint"});
  if (!pod.is_alive()) out.insert(out.begin() + 2, {pod.state, "bad"});
  out.front().is_broken = !pod.broken.empty();
  for (auto& line : broken_lines(pod.broken, kMaxText)) out.push_back({std::move(line), "bad"});
  auto ports = wrapped("ports", pod.host_ports, kMaxText - 2);
  if (ports.size() > kMaxPortLines) {
    ports.resize(kMaxPortLines);
    ports.back() = cat("      and more: ", pod.host_ports.size(), " in all");
  }
  for (std::string& line : ports) out.push_back({std::move(line)});
  return out;
}

Card card_of(const PodBox& pod, const View& view) {
  Card out{pod.is_alive() ? "card" : "gone", {{pod.label, "title"}}};
  const std::string& netns = pod.interfaces.front().of->netns;
  if (!netns.empty()) out.lines.push_back({netns, "faint"});
  for (const auto& [one, segment] : pod.interfaces) {
    auto lines = lines_with_kinds(*one);
    if (view.segments[segment].reaches(*one)) lines.front().segment = static_cast<int>(segment);
    out.lines.insert(out.lines.end(), lines.begin(), lines.end());
  }
  return out;
}

Card card_of(const ForeignPort& port, std::size_t segment) {
  return {"foreign",
          {{port.name, "title", static_cast<int>(segment)},
           {port.kind.empty() ? "foreign port" : cat("foreign port, ", port.kind), "faint"},
           {port.mac}}};
}

std::string colour_of(std::size_t segment) {
  constexpr std::size_t kColours = 6;
  return cat("s", segment % kColours);
}

Card card_of(const Segment& segment, std::size_t index) {
  Card out{segment.fault == "does not exist" ? "gone" : cat("bridge ", colour_of(index)),
           {{segment.title, "title"}}};
  if (!segment.fault.empty()) out.lines.push_back({segment.fault, "bad"});
  for (const std::string& line : segment.lines) out.lines.push_back({line});
  if (segment.masquerades) out.lines.push_back({"masqueraded", "faint"});
  for (auto& line : broken_lines(segment.broken_out, kMaxText)) {
    out.lines.push_back({std::move(line), "bad"});
  }
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

/// From where to where a vertical line goes.
struct Span {
  int top = 0, bottom = 0;
  void reach(int y) {
    top = bottom == 0 ? y : std::min(top, y);
    bottom = std::max(bottom, y);
  }
};

/// The page: uplinks, masters and segments in a column at the left, and boxes of pods in columns of
/// their own. Left of a column of pods there is a lane for each segment, which goes down beside the
/// boxes; lines above all boxes connect the lanes of a segment.
class Page {
 public:
  explicit Page(const Graph& graph) : view_(view_of(graph)) {
    for (const Uplink& one : graph.uplinks) links_.push_back({link_id(one.name), card_of(one)});
    for (const std::string& one : view_.masters) {
      links_.push_back({link_id(one), {"uplink", {{cat("link ", one), "title"}}}});
    }
    for (std::size_t i = 0; i < view_.segments.size(); ++i) {
      segments_.push_back(card_of(view_.segments[i], i));
    }
    for (const PodBox& one : view_.pods) pods_.push_back(card_of(one, view_));
    for (std::size_t i = 0; i < view_.segments.size(); ++i) {
      for (const ForeignPort& port : view_.segments[i].foreign) pods_.push_back(card_of(port, i));
    }
    measure();
  }

  std::string draw() {
    draw_left();
    if (links_.empty() && segments_.empty()) put({"card", {{"no pod is known", "faint"}}}, left_);
    std::vector<int> ends(columns_, top_);
    for (const Card& card : pods_) {
      const auto column = static_cast<std::size_t>(std::ranges::min_element(ends) - ends.begin());
      y_ = ends[column];
      put_pod(card, column);
      ends[column] = y_;
    }
    draw_lanes();
    return whole();
  }

 private:
  struct Link {
    std::string id;
    Card card;
    int at = 0;  // where its rail begins
  };

  void measure() {
    std::size_t widest = kMinText;
    const auto look = [&widest](const Card& card) {
      for (const Line& line : card.lines) widest = std::max(widest, width_of(line.text));
    };
    for (const Link& one : links_) look(one.card);
    for (const Card& card : segments_) look(card);
    for (const Card& card : pods_) look(card);
    characters_ = std::min(widest, kMaxText);
    card_width_ = static_cast<int>(characters_) * kChar + 2 * kPadding;
    gutter_ = static_cast<int>(segments_.size() + 1) * kLane;
    left_ = kMargin + static_cast<int>(links_.size() + 1) * kLane;
    const int room = (kMaxWidth - left_ - card_width_) / (gutter_ + card_width_);
    const auto square = std::ceil(std::sqrt(static_cast<double>(pods_.size())));
    columns_ = std::clamp<std::size_t>(
        static_cast<std::size_t>(square), 1,
        std::clamp<std::size_t>(static_cast<std::size_t>(std::max(room, 1)), 1, kColumns));
    top_ = kMargin + (columns_ > 1 ? gutter_ : 0);
    lanes_.assign(columns_, std::vector<Span>(segments_.size()));
  }

  int left_of(std::size_t column) const {
    return left_ + card_width_ + gutter_ + static_cast<int>(column) * (card_width_ + gutter_);
  }
  int lane_at(std::size_t column, std::size_t segment) const {
    return left_of(column) - gutter_ + static_cast<int>(segment + 1) * kLane;
  }

  void wire(const std::string& kind, const std::string& path) {
    wires_ += cat("<path class=\"", kind, "\" d=\"", path, "\"/>\n");
  }

  // Puts a box at y_, and y_ below it.
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
    y_ += height_of(card) + kGap;
    bottom_ = std::max(bottom_, y_);
  }

  // A line at the left from an uplink or master to each of its segments.
  void draw_rail(std::size_t link, const std::vector<int>& segments_at) {
    const int x = kMargin + static_cast<int>(link) * kLane;
    Span rail;
    const auto join = [&](int y, const char* kind) {
      const int at = y + 4 * static_cast<int>(link % 4);  // beside the line of another rail
      rail.reach(at);
      wire(kind, cat("M", x, " ", at, "H", left_));
    };
    const auto has = [&](const std::vector<std::string>& names) {
      return std::ranges::any_of(
          names, [&](const auto& name) { return link_id(name) == links_[link].id; });
    };
    const char* kind = "way";
    for (std::size_t i = 0; i < segments_at.size(); ++i) {
      const Segment& of = view_.segments[i];
      if (!has(of.uplinks) && !has(of.masters)) continue;
      kind = has(of.uplinks) ? "way" : "on";
      join(segments_at[i], of.broken_out.empty() ? kind : "broken");
    }
    if (rail.bottom == 0) return;
    join(links_[link].at, kind);
    wire(kind, cat("M", x, " ", rail.top, "V", rail.bottom));
  }

  void draw_left() {
    for (Link& one : links_) {
      one.at = y_ + kPadding + 2;
      put(one.card, left_);
    }
    std::vector<int> segments_at;
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      segments_at.push_back(y_ + kPadding + 2);
      lanes_[0][i].reach(y_ + kPadding + 6);
      wire(colour_of(i), cat("M", left_ + card_width_, " ", y_ + kPadding + 6, "H", lane_at(0, i)));
      put(segments_[i], left_);
    }
    for (std::size_t k = 0; k < links_.size(); ++k) draw_rail(k, segments_at);
  }

  void put_pod(const Card& card, std::size_t column) {
    int at = y_ + kPadding + 7;
    for (const Line& line : card.lines) {
      if (line.segment >= 0) {
        const auto segment = static_cast<std::size_t>(line.segment);
        const std::string colour = line.is_broken ? "broken" : colour_of(segment);
        lanes_[column][segment].reach(at);
        wire(colour, cat("M", lane_at(column, segment), " ", at, "H", left_of(column)));
        ports_ += cat("<circle class=\"", colour, "\" cx=\"", left_of(column), "\" cy=\"", at,
                      "\" r=\"3.5\"/>\n");
      }
      at += kLine;
    }
    put(card, left_of(column));
  }

  void draw_lanes() {
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      const int bus = kMargin + static_cast<int>(i) * kLane;
      std::size_t last = 0;
      for (std::size_t column = 1; column < columns_; ++column) {
        if (lanes_[column][i].bottom != 0) last = column;
      }
      if (last > 0) wire(colour_of(i), cat("M", lane_at(0, i), " ", bus, "H", lane_at(last, i)));
      for (std::size_t column = 0; column < columns_; ++column) {
        Span& lane = lanes_[column][i];
        if (lane.bottom == 0) continue;
        if (last > 0) lane.reach(bus);
        wire(colour_of(i), cat("M", lane_at(column, i), " ", lane.top, "V", lane.bottom));
      }
    }
  }

  std::string whole() const {
    const int width = right_ + kMargin;
    const int height = bottom_ + kMargin - kGap;
    return cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width, "\" height=\"", height,
               "\" viewBox=\"0 0 ", width, " ", height, "\">\n<style>", kStyle,
               "</style>\n<rect class=\"page\" width=\"", width, "\" height=\"", height, "\"/>\n",
               wires_, body_, ports_, "</svg>\n");
  }

  View view_;
  std::vector<Link> links_;
  std::vector<Card> segments_, pods_;
  std::size_t characters_ = 0, columns_ = 1;
  int card_width_ = 0, gutter_ = 0, left_ = 0, top_ = kMargin;
  int y_ = kMargin, right_ = 0, bottom_ = 0;
  std::vector<std::vector<Span>> lanes_;  // by column and segment
  std::string wires_, body_, ports_;
};

}  // namespace

std::string graph_svg(const Graph& graph) { return Page(graph).draw(); }

}  // namespace tool
