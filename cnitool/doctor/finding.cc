#include "cnitool/doctor/finding.h"

#include <algorithm>

namespace tool::doctor {

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kMax = 3;
  std::string out;
  for (std::size_t i = 0; i < std::min(kMax, names.size()); ++i) {
    out += cat(i == 0 ? "" : ", ", names[i]);
  }
  return names.size() > kMax ? cat(out, " and ", names.size() - kMax, " more") : out;
}

std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace tool::doctor
