#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

struct nlmsghdr;

namespace netlink {

/// The kernel's answer to one request.
struct Ack {
  std::uint32_t sequence = 0;
  int error = 0;     ///< positive errno; 0 is success
  std::string text;  ///< the kernel's sentence (extended ack, NLMSGERR_ATTR_MSG); often empty
};

/// Reads an NLMSG_ERROR, or an NLMSG_DONE, which carries an error where a dump failed half-way
/// (linux/netlink.h, Documentation/userspace-api/netlink/intro.rst). Nothing for other messages and
/// for ones that do not fit into available bytes. Malformed attributes never hide the error.
std::optional<Ack> decode_ack(const nlmsghdr* message, std::size_t available);

}  // namespace netlink
