#include "netlink/messages.h"

#include <doctest/doctest.h>
#include <linux/netlink.h>

#include <cstring>
#include <vector>

namespace {

using Bytes = std::vector<std::uint8_t>;

void append(Bytes& datagram, std::uint32_t length, std::size_t bytes) {
  const nlmsghdr head{
      .nlmsg_len = length, .nlmsg_type = 0, .nlmsg_flags = 0, .nlmsg_seq = 0, .nlmsg_pid = 0};
  Bytes message(bytes);
  std::memcpy(message.data(), &head, sizeof head);
  datagram.insert(datagram.end(), message.begin(), message.end());
}

std::vector<std::uint32_t> lengths_in(const Bytes& datagram) {
  std::vector<std::uint32_t> out;
  netlink::any_message(datagram, [&](const nlmsghdr* message, std::size_t left) {
    CHECK(message->nlmsg_len <= left);
    out.push_back(message->nlmsg_len);
    return false;
  });
  return out;
}

}  // namespace

TEST_CASE("messages follow each other at multiples of four bytes") {
  Bytes datagram;
  append(datagram, 18, 20);
  append(datagram, 16, 16);
  CHECK(lengths_in(datagram) == std::vector<std::uint32_t>{18, 16});
}

TEST_CASE("the last message need not be padded") {
  Bytes datagram;
  append(datagram, 18, 18);
  CHECK(lengths_in(datagram) == std::vector<std::uint32_t>{18});
}

TEST_CASE("a message that is cut off, or shorter than its header, ends the datagram") {
  for (const std::uint32_t length : {0U, 15U, 17U, 0xffffffffU}) {
    Bytes datagram;
    append(datagram, 16, 16);
    append(datagram, length, 16);
    CHECK(lengths_in(datagram) == std::vector<std::uint32_t>{16});
  }
  CHECK(lengths_in(Bytes(15)).empty());
  CHECK(lengths_in({}).empty());
}

TEST_CASE("whoever has seen enough is given no more") {
  Bytes datagram;
  append(datagram, 16, 16);
  append(datagram, 16, 16);
  int seen = 0;
  CHECK(netlink::any_message(datagram, [&](const nlmsghdr*, std::size_t) { return ++seen == 1; }));
  CHECK(seen == 1);
}
