#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netlink/attributes.h"
#include "netlink/message.h"
#include "netlink/netns.h"
#include "netlink/types/error.h"
#include "netlink/types/mac.h"

namespace netlink {

/// The MAC address that a request gives to a link, and on which link that one stands: addresses of
/// a macvlan are unique among those on its parent.
struct MacUse {
  Mac mac;
  int link = 0;                         ///< index; 0: it is created
  int parent = 0;                       ///< index; 0: it stands on none
  std::optional<int> parent_nsid = {};  ///< absent: in this namespace
};

/// A request and what it is, for the error message. Values of errno in tolerated count as success:
/// for what may be there already, or be gone already.
struct RouteRequest {
  std::string operation;  ///< "verb 'object'"
  Message message;
  std::vector<int> tolerated = {};
  std::optional<NetNs> mentions = {};  ///< kept open until it was sent: the message has its number
  std::string module = {};  ///< what the kernel needs for it; empty: nothing that it could lack
  std::optional<MacUse> mac = {};  ///< the MAC address that the kernel may find in use
};

/// The kernel module that has links of a kind.
constexpr std::string_view module_of(std::string_view kind) {
  return kind == "vlan" ? std::string_view("8021q") : kind;
}

}  // namespace netlink
