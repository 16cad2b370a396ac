#include "netlink/messages.h"

#include <linux/netlink.h>

#include <algorithm>
#include <cstring>

namespace netlink {

bool any_message(std::span<const std::uint8_t> datagram,
                 const std::function<bool(const nlmsghdr* message, std::size_t left)>& each) {
  while (datagram.size() >= sizeof(nlmsghdr)) {
    nlmsghdr head;
    std::memcpy(&head, datagram.data(), sizeof head);
    if (head.nlmsg_len < sizeof head || head.nlmsg_len > datagram.size()) return false;
    if (each(reinterpret_cast<const nlmsghdr*>(datagram.data()), datagram.size())) return true;
    const std::size_t step = (std::size_t{head.nlmsg_len} + 3) & ~std::size_t{3};
    datagram = datagram.subspan(std::min(step, datagram.size()));
  }
  return false;
}

}  // namespace netlink
