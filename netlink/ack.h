#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "netlink/attributes.h"

namespace netlink {

/// The kernel's answer to one request.
struct Ack {
  std::uint32_t sequence = 0;
  int error = 0;     ///< positive errno; 0 is success
  std::string text;  ///< the kernel's sentence (extended ack, NLMSGERR_ATTR_MSG); often empty
};

/// Reads an NLMSG_ERROR, or an NLMSG_DONE, which carries an error where a dump failed half-way
/// (linux/netlink.h, Documentation/userspace-api/netlink/intro.rst). Nothing for other messages and
/// for shorter ones. Malformed attributes never hide the error.
std::optional<Ack> decode_ack(const Reply& reply);

}  // namespace netlink
