#include "netlink/message.h"

#include <doctest/doctest.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>

#include "netlink/attributes.h"
#include "netlink/types/error.h"

using netlink::Message;
using netlink::Reply;

namespace {

// Four bytes of a fixed struct; attributes begin behind it.
constexpr genlmsghdr kFixed{.cmd = 1, .version = 2, .reserved = 0};
constexpr std::size_t kFirst = NLMSG_HDRLEN + sizeof kFixed;

nlattr attribute_at(const Message& message, std::size_t at) {
  return netlink::read_struct<nlattr>(message.bytes().subspan(at));
}

std::uint32_t length_of(const Message& message) {
  return netlink::read_struct<nlmsghdr>(message.bytes()).nlmsg_len;
}

int refusal(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const netlink::Error& e) {
    return e.error();
  }
  return 0;
}

}  // namespace

TEST_CASE("a message begins with its header, whose length is always the whole message's") {
  Message message(7, NLM_F_ACK, kFixed);
  CHECK(Reply(message.bytes()).type() == 7);
  CHECK(Reply(message.bytes()).flags() == (NLM_F_ACK | NLM_F_REQUEST));
  CHECK(length_of(message) == kFirst);
  message.append(std::uint8_t{1});
  CHECK(length_of(message) == kFirst + 4);
  CHECK(message.bytes().size() == kFirst + 4);
}

TEST_CASE("flags are added and a sequence number is set") {
  Message message(7, NLM_F_ACK, kFixed);
  message.add_flags(NLM_F_DUMP);
  message.set_sequence(0x01020304);
  CHECK(Reply(message.bytes()).flags() == (NLM_F_ACK | NLM_F_REQUEST | NLM_F_DUMP));
  CHECK(Reply(message.bytes()).sequence() == 0x01020304);
}

TEST_CASE("an attribute's length is without the padding, which is zero") {
  Message message(1, 0, kFixed);
  message.put(3, "abcd");
  CHECK(attribute_at(message, kFirst).nla_len == 9);
  CHECK(attribute_at(message, kFirst).nla_type == 3);
  CHECK(message.bytes().size() == kFirst + 12);
  CHECK(message.bytes().back() == 0);
}

TEST_CASE("numbers have the byte order of the machine, or the network's") {
  Message message(1, 0, kFixed);
  message.put_u32(1, 0x01020304);
  message.put_be16(2, 0x0102);
  message.put_be32(3, 0x01020304);
  message.put_be64(4, 0x0102030405060708);
  const netlink::Attributes attributes = Reply(message.bytes()).attributes(sizeof kFixed);
  CHECK(attributes.find(1).u32() == 0x01020304);
  CHECK(attributes.find(2).value[0] == 1);
  CHECK(attributes.find(2).be16() == 0x0102);
  CHECK(attributes.find(3).value[0] == 1);
  CHECK(attributes.be32(3) == 0x01020304);
  CHECK(attributes.find(4).value[0] == 1);
  CHECK(attributes.be64(4) == 0x0102030405060708);
}

TEST_CASE("an attribute holds what is put into it, and attributes in attributes") {
  Message message(1, 0, kFixed);
  message.nest(1, [&] { message.nest(2, [&] { message.put(3, "a"); }); });
  message.put(4, netlink::View());
  CHECK(attribute_at(message, kFirst).nla_len == 16);
  CHECK(attribute_at(message, kFirst).nla_type == (1 | NLA_F_NESTED));
  CHECK(attribute_at(message, kFirst + 4).nla_len == 12);
  CHECK(attribute_at(message, kFirst + 16).nla_len == 4);
}

TEST_CASE("what does not fit is refused and leaves the message as it was") {
  Message message(1, 0, kFixed);
  const std::string text(Message::kLargest - kFirst - 16, 'x');
  message.put(1, text);
  const std::size_t size = message.bytes().size();
  CHECK(refusal([&] { message.put(1, "abcdefgh"); }) == EMSGSIZE);
  CHECK(length_of(message) == size);
  message.put(1, "abc");
  CHECK(message.bytes().size() == Message::kLargest);
  CHECK(refusal([&] { message.put(1, netlink::View()); }) == EMSGSIZE);
}

TEST_CASE("an attribute longer than its length field can say is refused") {
  Message message(1, 0, kFixed);
  CHECK(refusal([&] { message.put(1, std::string(65532, 'x')); }) == EMSGSIZE);
  CHECK(refusal([&] {
          message.nest(2, [&] {
            for (int i = 0; i < 2; ++i) message.put(2, std::string(32764, 'x'));
          });
        }) == EMSGSIZE);
}
