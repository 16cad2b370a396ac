#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "netlink/types/ip.h"

/// What the user names as the other end of probes.
namespace tool::probe {

using netlink::Ip;

/// What --to names.
struct Target {
  enum class Kind : std::uint8_t { kAddress, kPod, kNameServers };
  Kind kind = Kind::kAddress;
  Ip ip = {};              ///< of kAddress
  std::string pod = {};    ///< of kPod: [NAMESPACE/]NAME, or a container ID
  std::uint16_t port = 0;  ///< 0: an echo
  bool is_udp = false;
};

/// "10.0.0.1", "10.0.0.1:80", "10.0.0.1:53/udp", "[fd00::1]:80", "shop/web-1", "web-1:80", "dns".
/// Empty: it is none of these.
std::optional<Target> target_of(const std::string& text);

/// What is wrong with the text of --to; empty: nothing.
std::string refusal_of_target(const std::string& text);

/// What is wrong with the text of --from, which is the address of a host; empty: nothing.
std::string refusal_of_source(const std::string& text);

}  // namespace tool::probe
