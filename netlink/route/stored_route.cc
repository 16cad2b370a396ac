#include "netlink/route/stored_route.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <charconv>
#include <cstring>

namespace netlink {

namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

std::optional<Bytes> bytes_from(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  Bytes out(text.size() / 2);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const char* const digits = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(digits, digits + 2, out[i], 16);
    if (error != std::errc() || end != digits + 2) return std::nullopt;
  }
  return out;
}

// Attributes up to the end: the kernel would take a route that lost its last ones for another.
bool are_whole(View attributes) {
  while (Attribute::take(attributes)) {
  }
  return attributes.empty();
}

}  // namespace

std::string stored(const RouteCopy& route) {
  std::string out;
  for (const std::uint8_t byte : route.payload) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 0xf];
  }
  return out;
}

std::optional<RouteCopy> route_from_stored(std::string_view text) {
  const auto payload = bytes_from(text);
  if (!payload || payload->size() < sizeof(rtmsg)) return std::nullopt;
  if (!are_whole(View(*payload).subspan(sizeof(rtmsg)))) return std::nullopt;
  nlmsghdr head{};
  head.nlmsg_len = static_cast<std::uint32_t>(NLMSG_HDRLEN + payload->size());
  head.nlmsg_type = RTM_NEWROUTE;
  Bytes message(NLMSG_HDRLEN);
  std::memcpy(message.data(), &head, sizeof head);
  message.insert(message.end(), payload->begin(), payload->end());
  return copy_route(Reply(message));
}

}  // namespace netlink
