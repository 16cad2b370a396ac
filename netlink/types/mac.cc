#include "netlink/types/mac.h"

#include <sys/random.h>

#include <cerrno>
#include <cstdio>

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
    throw Error("choose a random hardware address", errno);
  }
  mac.bytes[0] = static_cast<std::uint8_t>((mac.bytes[0] & 0xfe) | 0x02);
  return mac;
}

std::string Mac::str() const {
  char text[18];
  std::snprintf(text, sizeof text, "%02x:%02x:%02x:%02x:%02x:%02x", bytes[0], bytes[1], bytes[2],
                bytes[3], bytes[4], bytes[5]);
  return text;
}

}  // namespace netlink
