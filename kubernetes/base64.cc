#include "kubernetes/base64.h"

#include <cstddef>
#include <cstdint>

namespace kubernetes {

std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  std::uint32_t bits = 0;
  std::size_t digits = 0, padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r' || c == ' ') continue;
    if (c == '=') {
      ++padding;
      continue;
    }
    const auto digit = kDigits.find(c);
    if (digit == kDigits.npos || padding != 0) return std::nullopt;
    bits = (bits << 6U) | static_cast<std::uint32_t>(digit);
    if (++digits % 4 != 1)
      out += static_cast<char>((bits >> (6U - 2U * ((digits - 1) % 4))) & 0xffU);
  }
  if ((digits + padding) % 4 != 0 || padding > 2) return std::nullopt;
  return out;
}

}  // namespace kubernetes
