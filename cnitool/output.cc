#include "cnitool/output.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libcni/common/printable.h"
#include "libcni/config/json.h"

namespace tool {

namespace {

using nlohmann::ordered_json;

constexpr auto kReplace = ordered_json::error_handler_t::replace;

constexpr std::string_view kEndOfColour = "\x1b[0m";
constexpr std::string_view kCodes[] = {"",         "\x1b[1m",  "\x1b[2m",   "\x1b[31m",
                                       "\x1b[32m", "\x1b[33m", kEndOfColour};

constexpr const char* kEllipsis = "…";
constexpr std::size_t kBlanks = 2;  // between columns

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

std::size_t length_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return !is_continuation(c); }));
}

// A line ends after a comma of a list, or a slash of a path.
std::vector<std::string> pieces_of(const std::string& text) {
  const char separator = text.starts_with('/') ? '/' : ',';
  std::vector<std::string> out;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    end = std::min(text.find(separator, at), text.size() - 1) + 1;
    out.push_back(text.substr(at, end - at));
  }
  return out;
}

// Makes columns narrower, the widest first, but none narrower than its minimum.
void narrow(std::vector<std::size_t>& widths, const std::vector<std::size_t>& minima,
            std::size_t most) {
  std::size_t all = 0;
  for (const std::size_t one : widths) all += one + kBlanks;
  for (; all > most + kBlanks; --all) {
    std::size_t widest = widths.size();
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (widths[i] <= minima[i]) continue;
      if (widest == widths.size() || widths[i] > widths[widest]) widest = i;
    }
    if (widest == widths.size()) return;
    --widths[widest];
  }
}

// IDs are cut before lists and paths are wrapped, and other texts are cut last.
std::vector<std::size_t> widths_of(const std::vector<std::vector<Cell>>& rows, std::size_t most) {
  constexpr std::size_t kMin = 8, kLongName = 32, kDigits = 13;
  std::vector<std::size_t> out, pieces;
  for (const auto& row : rows) {
    out.resize(std::max(out.size(), row.size()));
    pieces.resize(out.size());
    for (std::size_t i = 0; i < row.size(); ++i) {
      out[i] = std::max(out[i], length_of(row[i].text));
      for (const std::string& one : pieces_of(row[i].text)) {
        pieces[i] = std::max(pieces[i], length_of(one));
      }
    }
  }
  if (most == 0) return out;
  std::vector<std::size_t> minima = out;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (pieces[i] > kLongName) minima[i] = pieces[i] = kDigits;
  }
  narrow(out, minima, most);
  narrow(out, pieces, most);
  narrow(out, std::vector<std::size_t>(out.size(), kMin), most);
  return out;
}

std::vector<std::string> lines_in(const std::string& text, std::size_t width) {
  std::vector<std::string> out{""};
  for (const std::string& piece : pieces_of(text)) {
    const std::string part = cut(piece, width);
    if (!out.back().empty() && length_of(out.back()) + length_of(part) > width) {
      out.emplace_back();
    }
    out.back() += part;
  }
  return out;
}

}  // namespace

std::span<const std::string_view> colour_codes() { return kCodes; }

std::string Output::painted(Colour colour, std::string_view text) const {
  const std::string_view code = kCodes[static_cast<std::size_t>(colour)];
  return colours && !code.empty() ? cat(code, text, kEndOfColour) : std::string(text);
}

void Output::print(const ordered_json& doc) const {
  const std::string text = doc.dump(4, ' ', false, kReplace);
  // JSON that programs read keeps its characters: those that a terminal would obey as \uXXXX.
  const bool is_plain = cni::printable_text(text) == text;
  out << (is_plain ? text : doc.dump(4, ' ', true, kReplace)) << '\n';
}

void print_table(const Output& output, const std::vector<std::vector<Cell>>& rows) {
  const std::vector<std::size_t> widths = widths_of(rows, output.width);
  for (const auto& row : rows) {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (std::size_t i = 0; i < row.size(); ++i) {
      cells.push_back(lines_in(row[i].text, widths[i]));
      height = std::max(height, cells.back().size());
    }
    for (std::size_t line = 0; line < height; ++line) {
      for (std::size_t i = 0; i < row.size(); ++i) {
        const std::string text = line < cells[i].size() ? cells[i][line] : "";
        output.out << output.painted(text.empty() ? Colour::kPlain : row[i].colour, text);
        if (i + 1 < row.size())
          output.out << std::string(widths[i] - length_of(text) + kBlanks, ' ');
      }
      output.out << '\n';
    }
  }
}

std::string cut(const std::string& text, std::size_t width) {
  if (length_of(text) <= width) return text;
  std::size_t end = width - 1;
  while (end > 0 && is_continuation(text[end])) --end;
  return cat(text.substr(0, end), kEllipsis);
}

std::string folded(const std::string& text, std::size_t indent, std::size_t width) {
  std::string out;
  std::size_t column = indent;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end + 1) {
    end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    const bool is_full = width != 0 && column > indent && column + 1 + length_of(word) > width;
    if (at > 0) out += is_full ? cat("\n", std::string(indent, ' ')) : " ";
    column = (is_full ? indent : column + (at > 0 ? 1 : 0)) + length_of(word);
    out += word;
  }
  return out;
}

std::string age_text(std::time_t seconds) {
  constexpr std::time_t kMinute = 60;
  constexpr std::time_t kHour = 60 * kMinute;
  constexpr std::time_t kDay = 24 * kHour;
  seconds = std::max<std::time_t>(seconds, 0);
  if (seconds < 2 * kMinute) return cat(seconds, "s");
  if (seconds < 2 * kHour) return cat(seconds / kMinute, "m");
  if (seconds < 2 * kDay) return cat(seconds / kHour, "h");
  return cat(seconds / kDay, "d");
}

std::string counted(std::size_t count, std::string_view noun) {
  return cat(count, " ", noun, count == 1 ? "" : noun.ends_with('s') ? "es" : "s");
}

std::string joined(const std::vector<std::string>& texts, std::string_view between) {
  std::string out;
  for (const std::string& text : texts) out += cat(&text == &texts.front() ? "" : between, text);
  return out;
}

std::string text_of(const cni::Error& error) {
  std::string details = error.details();
  while (details.ends_with('\n')) details.pop_back();
  return cat(error.what(), details.empty() ? "" : "; ", details);
}

ordered_json json_of(const cni::Error& error) {
  ordered_json out;
  out["code"] = static_cast<unsigned>(error.code());
  out["msg"] = error.what();
  if (!error.details().empty()) out["details"] = error.details();
  return out;
}

std::string printable(std::string name) {
  for (char& c : name) {
    if (static_cast<unsigned char>(c) >= 0x7f || static_cast<unsigned char>(c) < 0x20) c = '?';
  }
  return name;
}

std::string indented(std::string_view text, int levels) {
  const std::string space(static_cast<std::size_t>(2 * levels), ' ');
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    out += cat(space, text.substr(at, end - at), "\n");
    at = end + 1;
  }
  return out;
}

ordered_json json_or_text(const std::string& text) {
  auto doc = cni::try_parse_ordered_json(text);
  return doc.is_discarded() ? ordered_json(text) : doc;
}

std::string pretty(const std::string& text) {
  const auto doc = cni::try_parse_ordered_json(text);
  std::string out = doc.is_discarded() ? text : doc.dump(2, ' ', false, kReplace);
  while (out.ends_with('\n')) out.pop_back();
  return out;
}

}  // namespace tool
