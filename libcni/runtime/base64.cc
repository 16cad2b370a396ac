#include "libcni/runtime/base64.h"

#include <cstdint>

namespace cni {

namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view part = bytes.substr(at, 3);
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      group = group << 8 | (i < part.size() ? static_cast<unsigned char>(part[i]) : 0U);
    }
    for (std::size_t i = 0; i < 4; ++i) {
      out += i <= part.size() ? kDigits[group >> (18 - 6 * i) & 63U] : '=';
    }
  }
  return out;
}

std::optional<std::string> base64_decode(std::string_view text) {
  std::string out;
  std::uint32_t group = 0;
  std::size_t digits = 0;
  std::size_t padding = 0;
  for (const char c : text) {
    if (c == '\n' || c == '\r') continue;
    const auto value = kDigits.find(c);
    if (c == '=') {
      ++padding;
    } else if (value == std::string_view::npos || padding > 0) {
      return std::nullopt;
    }
    group = group << 6 | (c == '=' ? 0U : static_cast<std::uint32_t>(value));
    if (++digits % 4 != 0) continue;
    for (const unsigned shift : {16U, 8U, 0U}) out += static_cast<char>(group >> shift & 255U);
  }
  if (digits % 4 != 0 || padding > 2 || padding > digits) return std::nullopt;
  out.resize(out.size() - padding);
  return out;
}

}  // namespace cni
