#include "cnitool/output.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libcni/config/json.h"

namespace tool {

namespace {

using nlohmann::ordered_json;

constexpr auto kReplace = ordered_json::error_handler_t::replace;

// The order is that of Colour.
constexpr std::string_view kCodes[] = {"",         "\x1b[1m",  "\x1b[2m",
                                       "\x1b[31m", "\x1b[32m", "\x1b[33m"};

}  // namespace

std::string Output::painted(Colour colour, std::string_view text) const {
  const std::string_view code = kCodes[static_cast<std::size_t>(colour)];
  return colours && !code.empty() ? cat(code, text, "\x1b[0m") : std::string(text);
}

void Output::print(const ordered_json& doc) const {
  out << doc.dump(4, ' ', false, kReplace) << '\n';
}

void print_table(const Output& output, const std::vector<std::vector<Cell>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].text.size());
    }
  }
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      output.out << output.painted(row[i].colour, row[i].text);
      if (i + 1 < row.size()) output.out << std::string(widths[i] - row[i].text.size() + 2, ' ');
    }
    output.out << '\n';
  }
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
  return cat(count, " ", noun, count == 1 ? "" : "s");
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
