#include "netlink/attributes.h"

#include <doctest/doctest.h>
#include <linux/netlink.h>

#include <cstring>
#include <stdexcept>
#include <vector>

using netlink::Attribute;
using netlink::Attributes;
using netlink::Bytes;
using netlink::Reply;

namespace {

void append(Bytes& datagram, std::uint32_t length, std::size_t bytes) {
  const nlmsghdr head{
      .nlmsg_len = length, .nlmsg_type = 0, .nlmsg_flags = 0, .nlmsg_seq = 0, .nlmsg_pid = 0};
  Bytes message(bytes);
  std::memcpy(message.data(), &head, sizeof head);
  datagram.insert(datagram.end(), message.begin(), message.end());
}

std::vector<std::size_t> lengths_in(const Bytes& datagram) {
  std::vector<std::size_t> out;
  for (const Reply& reply : netlink::Replies{datagram}) out.push_back(reply.bytes().size());
  return out;
}

// One attribute: length, type, the bytes; the machine's byte order is that of the test's kernels.
Bytes attribute(std::uint16_t length, std::uint16_t type, Bytes value) {
  const nlattr head{length, type};
  Bytes out(sizeof head);
  std::memcpy(out.data(), &head, sizeof head);
  out.insert(out.end(), value.begin(), value.end());
  return out;
}

std::vector<unsigned> types_in(const Bytes& bytes) {
  std::vector<unsigned> out;
  for (const Attribute& one : Attributes(bytes)) out.push_back(one.type);
  return out;
}

}  // namespace

TEST_CASE("messages follow each other at multiples of four bytes") {
  Bytes datagram;
  append(datagram, 18, 20);
  append(datagram, 16, 16);
  CHECK(lengths_in(datagram) == std::vector<std::size_t>{18, 16});
}

TEST_CASE("the last message need not be padded") {
  Bytes datagram;
  append(datagram, 18, 18);
  CHECK(lengths_in(datagram) == std::vector<std::size_t>{18});
}

TEST_CASE("a message that is cut off, or shorter than its header, ends the datagram") {
  for (const std::uint32_t length : {0U, 15U, 17U, 0xffffffffU}) {
    Bytes datagram;
    append(datagram, 16, 16);
    append(datagram, length, 16);
    CHECK(lengths_in(datagram) == std::vector<std::size_t>{16});
  }
  CHECK(lengths_in(Bytes(15)).empty());
  CHECK(lengths_in({}).empty());
}

TEST_CASE("a message shorter than its fixed struct has no struct and no attributes") {
  Bytes datagram;
  append(datagram, 18, 20);
  const Reply reply = *netlink::Replies{datagram}.begin();
  CHECK_THROWS_AS(reply.fixed<std::uint32_t>(), std::invalid_argument);
  CHECK(reply.fixed<std::uint16_t>() == 0);
  CHECK(reply.attributes(4).bytes().empty());
}

TEST_CASE("attributes follow each other at multiples of four bytes, without flags in their types") {
  Bytes bytes = attribute(5, 1 | NLA_F_NESTED, {7, 0, 0, 0});
  const Bytes second = attribute(6, 2 | NLA_F_NET_BYTEORDER, {1, 2});
  bytes.insert(bytes.end(), second.begin(), second.end());
  CHECK(types_in(bytes) == std::vector<unsigned>{1, 2});
  CHECK(Attributes(bytes).find(1).u8() == 7);
  CHECK(Attributes(bytes).find(2).be16() == 0x0102);
  CHECK(Attributes(bytes).find(3).value.empty());
  CHECK_FALSE(Attributes(bytes).has(3));
}

TEST_CASE("an attribute that is cut off, or shorter than its header, ends the sequence") {
  for (const unsigned length : {0U, 3U, 9U, 0xffffU}) {
    Bytes bytes = attribute(8, 1, {1, 2, 3, 4});
    const Bytes bad = attribute(static_cast<std::uint16_t>(length), 2, {1, 2, 3, 4});
    bytes.insert(bytes.end(), bad.begin(), bad.end());
    CHECK(types_in(bytes) == std::vector<unsigned>{1});
  }
}

TEST_CASE("a value shorter than its type is zero, and a text ends at its NUL or its attribute") {
  const Bytes bytes = attribute(7, 1, {'a', 'b', 'c', 0});
  const Attribute one = Attributes(bytes).find(1);
  CHECK(one.u32() == 0);
  CHECK(one.u16() != 0);
  CHECK(one.text() == "abc");
  const Bytes with_nul = attribute(8, 1, {'a', 0, 'c', 'd'});
  CHECK(Attributes(with_nul).text(1) == "a");
  CHECK(Attribute{}.text().empty());
}
