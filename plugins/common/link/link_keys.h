#pragma once

#include <optional>
#include <span>
#include <string>

#include "libcni/config/common_keys.h"
#include "netlink/types/mac.h"

/// Keys that interface plugins share: MTU, MAC address and link names.
namespace plugins {

/// A link name as the kernel takes it (dev_valid_name() in net/core/dev.c).
bool is_link_name(const std::string& text);
inline constexpr const char* kLinkName =
    "an interface name of 1 to 15 bytes without slash, colon, percent sign and white space";
/// The same as a pattern of JSON Schema.
inline constexpr const char* kLinkNamePattern = "^[^/:% \\t\\n\\v\\f\\r\\x00]{1,15}$";

/// The number of a word of an enumeration; nothing for an empty text, which is the default.
/// \throws cni::Error(kInvalidConfig) with the complaint: "unknown macvlan mode".
std::optional<std::size_t> word_from(const cni::Reader& place, const char* complaint,
                                     std::span<const std::string_view> words);

/// The MAC address of one Ethernet interface; nothing for an empty text.
/// \throws cni::Error(kInvalidConfig) for zero, multicast or malformed ones.
std::optional<netlink::Mac> mac_from(const cni::Reader& place);

/// The same for a key of the container interface: a malformed one is refused in the reference
/// plugins' words.
std::optional<netlink::Mac> mac_key_from(const cni::Reader& place);

/// "MAC" of CNI_ARGS; `args` and `runtimeConfig` override it. \throws
/// cni::Error(kInvalidEnvironment).
std::optional<netlink::Mac> mac_from_args(const std::string& cni_args);

/// The CNI_ARGS for the Manual of a plugin with these keys.
inline constexpr cni::Key kMacArgs[] = {
    {.name = "MAC",
     .description =
         "MAC address of the container interface. `mac` in `args` or `runtimeConfig` overrides it",
     .type = cni::Type::kMac}};

/// The keys of an interface plugin, each for a Conf with the member that it fills.
/// `mtu`, into unsigned mtu. description: of which links.
template <class Conf>
constexpr auto mtu_key(const char* description) {
  return cni::key<&Conf::mtu>({.name = "mtu",
                               .description = description,
                               .default_text = "0",
                               .minimum = 68,  // RFC 791; the kernel's ETH_MIN_MTU
                               .maximum = 65535,
                               .expected = "0 (the kernel's default) or 68 to 65535",
                               .or_zero = true});
}

/// `mac`, into std::optional<Mac> mac where that is empty: what stands in CNI_ARGS is read before.
template <class Conf>
void read_mac(const cni::Reader& place, Conf& conf) {
  const auto mac = mac_key_from(place);
  if (!conf.mac) conf.mac = mac;
}
template <class Conf>
constexpr auto mac_key(const char* description) {
  return cni::custom<read_mac<Conf>>(
      {.name = "mac", .description = description, .type = cni::Type::kMac, .or_empty = true});
}

/// `args.cni.mac` and `runtimeConfig.mac` of a Conf with the member `mac`.
template <class Conf>
struct MacKeys {
  static void read(const cni::Reader& place, Conf& conf) {
    if (const auto mac = mac_key_from(place)) conf.mac = mac;
  }
  static constexpr auto kArgsCni = cni::keys(cni::custom<read>(
      {.name = "mac",
       .description = "MAC address of the container interface. `runtimeConfig` overrides it",
       .type = cni::Type::kMac,
       .or_empty = true}));
  static constexpr auto kArgs = cni::keys(cni::part<kArgsCni>({.name = "cni", .open = true}));
  static constexpr auto kRuntime =
      cni::keys(cni::custom<read>({.name = "mac",
                                   .description = "MAC address of the container interface",
                                   .type = cni::Type::kMac,
                                   .or_empty = true}));
};

}  // namespace plugins
