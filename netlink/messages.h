#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

struct nlmsghdr;

namespace netlink {

/// Hands over the messages of a datagram one after the other, each with the bytes that are left
/// from its beginning on, until each() says true. Whether it did. Trusts no length: a message is
/// whole when it is handed over, and what is cut off is not.
bool any_message(std::span<const std::uint8_t> datagram,
                 const std::function<bool(const nlmsghdr* message, std::size_t left)>& each);

}  // namespace netlink
