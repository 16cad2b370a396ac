#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/attributes.h"
#include "netlink/message.h"
#include "netlink/netns.h"

namespace netlink {

/// A request and what it is, for the error message. Values of errno in tolerated count as success:
/// for what may be there already, or be gone already.
struct RouteRequest {
  std::string operation;  ///< "verb 'object'"
  Message message;
  std::vector<int> tolerated = {};
  std::optional<NetNs> mentions = {};  ///< kept open until it was sent: the message has its number
};

}  // namespace netlink
