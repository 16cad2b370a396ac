#include "libcni/daemon/duration.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string>

namespace cni {

namespace {

struct DurationUnit {
  std::string_view name;
  double milliseconds;
};
constexpr DurationUnit kDurationUnits[] = {{"ms", 1}, {"s", 1e3}, {"m", 6e4}, {"h", 3.6e6}};

}  // namespace

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  constexpr double kMax = 1e12;  // milliseconds: 30 years
  if (text == "0") return std::chrono::milliseconds(0);
  double total = 0;
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    const auto end = text.find_first_not_of("0123456789.");
    if (end == 0 || end == std::string_view::npos) return std::nullopt;
    char* stop = nullptr;
    const std::string number(text.substr(0, end));
    const double value = std::strtod(number.c_str(), &stop);
    if (stop != number.c_str() + number.size()) return std::nullopt;
    text.remove_prefix(end);
    const auto unit_end = std::min(text.find_first_of("0123456789."), text.size());
    const std::string_view unit = text.substr(0, unit_end);
    text.remove_prefix(unit_end);
    const auto known = std::ranges::find(kDurationUnits, unit, &DurationUnit::name);
    if (known == std::end(kDurationUnits)) return std::nullopt;
    total += value * known->milliseconds;
    if (total > kMax) return std::nullopt;
  }
  return std::chrono::milliseconds(std::llround(total));
}

}  // namespace cni
