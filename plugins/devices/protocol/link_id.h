#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "netlink/types/mac.h"

/// IDs of links that are no PCI or auxiliary device: "netdev:" and the permanent MAC address with
/// hyphens, else the name.
namespace devices {

inline constexpr std::string_view kLinkId = "netdev:";

inline std::string link_id(std::string_view name) { return std::string(kLinkId).append(name); }
inline std::string link_id(const netlink::Mac& mac) {
  std::string text = mac.str();
  std::ranges::replace(text, ':', '-');
  return link_id(text);
}

/// Whether it has a MAC address, which is longer than the name of any link (IFNAMSIZ).
inline bool is_mac_id(std::string_view id) {
  return id.starts_with(kLinkId) && id.size() == link_id(netlink::Mac()).size();
}

}  // namespace devices
