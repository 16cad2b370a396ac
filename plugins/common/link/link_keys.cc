#include "plugins/common/link/link_keys.h"

#include <algorithm>

#include "libcni/config/args.h"
#include "libcni/config/names.h"

namespace plugins {

namespace {

std::optional<netlink::Mac> unicast(const std::string& text) {
  const auto mac = netlink::Mac::parse(text);
  return mac && !mac->is_zero() && !mac->is_multicast() ? mac : std::nullopt;
}

}  // namespace

bool is_link_name(const std::string& text) { return cni::is_link_name(text); }

// The message is the reference plugins'.
static std::string bad_mac(const std::string& text) {
  const bool is_mac = netlink::Mac::parse(text).has_value();  // a multicast address, or zero
  return cni::cat("invalid args ", text, " for MAC addr: address ", text, ": ",
                  is_mac ? "not a unicast address" : "invalid MAC address");
}

std::optional<std::size_t> word_from(const cni::Reader& place, const char* complaint,
                                     std::span<const std::string_view> words) {
  const std::string text = place.as_string();
  if (text.empty()) return std::nullopt;
  const auto word = std::ranges::find(words, text);
  if (word != words.end()) return static_cast<std::size_t>(word - words.begin());
  place.refuse(
      cni::cat(complaint, ": \"", text, "\""),
      cni::cat("expected ", cni::expectation({.type = cni::Type::kEnum, .enumeration = words})));
}

std::optional<netlink::Mac> mac_from(const cni::Reader& place) {
  const std::string text = place.as_string();
  if (text.empty()) return std::nullopt;
  const auto mac = unicast(text);
  if (!mac) place.fail(cni::cat("expected ", cni::kMacForm));
  return mac;
}

std::optional<netlink::Mac> mac_key_from(const cni::Reader& place) {
  const std::string text = place.as_string();
  if (!text.empty() && !netlink::Mac::parse(text)) {
    place.refuse(bad_mac(text), cni::cat("expected ", cni::kMacForm));
  }
  return mac_from(place);
}

std::optional<netlink::Mac> mac_from_args(const std::string& cni_args) {
  std::optional<netlink::Mac> mac;
  for (const auto& [name, value] : cni::parse_args(cni_args, kMacArgs)) {
    if (value.empty()) continue;
    mac = unicast(value);
    if (mac) continue;
    throw cni::Error(cni::Code::kInvalidEnvironment, bad_mac(value),
                     cni::cat("CNI_ARGS: ", name, ": expected ", cni::kMacForm));
  }
  return mac;
}

}  // namespace plugins
