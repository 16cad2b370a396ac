#include "netlink/encoder.h"

#include <doctest/doctest.h>
#include <linux/netlink.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>

#include "netlink/types/error.h"

using netlink::Encoder;

namespace {

nlattr attribute_at(const Encoder& encoder, std::size_t at) {
  nlattr out;
  std::memcpy(&out, &encoder.bytes()[at], sizeof out);
  return out;
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
  Encoder encoder(7, NLM_F_ACK, 64);
  CHECK(encoder.header()->nlmsg_type == 7);
  CHECK(encoder.header()->nlmsg_flags == (NLM_F_ACK | NLM_F_REQUEST));
  CHECK(encoder.header()->nlmsg_len == NLMSG_HDRLEN);
  encoder.append("abcde", 5);
  CHECK(encoder.header()->nlmsg_len == NLMSG_HDRLEN + 8);
  CHECK(encoder.bytes().size() == NLMSG_HDRLEN + 8);
}

TEST_CASE("an attribute says its length without the padding, which is zero") {
  Encoder encoder(1, 0, 64);
  encoder.put(3, "abcde", 5);
  CHECK(attribute_at(encoder, NLMSG_HDRLEN).nla_len == 9);
  CHECK(attribute_at(encoder, NLMSG_HDRLEN).nla_type == 3);
  CHECK(encoder.bytes().size() == NLMSG_HDRLEN + 12);
  CHECK(encoder.bytes().back() == 0);
}

TEST_CASE("an attribute holds what is put into it, and attributes in attributes") {
  Encoder encoder(1, 0, 128);
  const auto outer = encoder.begin(1);
  const auto inner = encoder.begin(2);
  encoder.put(3, "ab", 2);
  encoder.end(inner);
  encoder.end(outer);
  encoder.put(4, nullptr, 0);
  CHECK(attribute_at(encoder, outer).nla_len == 16);
  CHECK(attribute_at(encoder, outer).nla_type == (1 | NLA_F_NESTED));
  CHECK(attribute_at(encoder, inner).nla_len == 12);
  CHECK(attribute_at(encoder, NLMSG_HDRLEN + 16).nla_len == 4);
}

TEST_CASE("what does not fit is refused and leaves the message as it was") {
  Encoder encoder(1, 0, NLMSG_HDRLEN + 8);
  CHECK(refusal([&] { encoder.put(1, "abcde", 5); }) == EMSGSIZE);
  CHECK(encoder.header()->nlmsg_len == NLMSG_HDRLEN);
  encoder.put(1, "abcd", 4);
  CHECK(refusal([&] { encoder.put(1, nullptr, 0); }) == EMSGSIZE);
  CHECK(encoder.bytes().size() == NLMSG_HDRLEN + 8);
}

TEST_CASE("an attribute longer than its length field can say is refused") {
  const std::string text(65532, 'x');
  Encoder encoder(1, 0, 1 << 20);
  CHECK(refusal([&] { encoder.put(1, text.data(), text.size()); }) == EMSGSIZE);
  encoder.put(1, text.data(), text.size() - 1);
  Encoder nest(1, 0, 1 << 20);
  const auto open = nest.begin(1);
  nest.put(2, text.data(), 40000);
  nest.put(2, text.data(), 40000);
  CHECK(refusal([&] { nest.end(open); }) == EMSGSIZE);
}
