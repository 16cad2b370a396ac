#include "netlink/types/mac.h"

#include <sys/random.h>

#include <cerrno>

#include "netlink/types/error.h"

namespace netlink {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<Mac> Mac::parse(std::string_view text) {
  const bool dotted = text.size() == 14;
  if (!dotted && text.size() != 17) return std::nullopt;
  const char separator = dotted ? '.' : text[2];
  if (!dotted && separator != ':' && separator != '-') return std::nullopt;
  const std::size_t group = dotted ? 4 : 2;
  Mac mac;
  std::size_t nibble = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i % (group + 1) == group) {
      if (text[i] != separator) return std::nullopt;
      continue;
    }
    const int value = hex_digit(text[i]);
    if (value < 0) return std::nullopt;
    auto& byte = mac.bytes[nibble / 2];
    byte = static_cast<std::uint8_t>(byte << 4 | value);
    ++nibble;
  }
  return mac;
}

Mac Mac::random() {
  Mac mac;
  if (::getrandom(mac.bytes.data(), mac.bytes.size(), 0) !=
      static_cast<ssize_t>(mac.bytes.size())) {
    throw Error("choose a random MAC address", errno);
  }
  mac.bytes[0] = static_cast<std::uint8_t>((mac.bytes[0] & 0xfe) | 0x02);
  return mac;
}

std::string Mac::str() const {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    if (!text.empty()) text += ':';
    text += kDigits[byte >> 4];
    text += kDigits[byte & 0xf];
  }
  return text;
}

}  // namespace netlink
