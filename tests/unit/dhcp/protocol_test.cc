#include "plugins/dhcp/protocol/protocol.h"

#include <doctest/doctest.h>

#include "libcni/common/error.h"

using dhcp::Call;
using dhcp::gob::Decoder;
using namespace std::string_literals;

namespace {

std::string bytes(std::initializer_list<int> values) {
  std::string out;
  for (const int value : values) out += static_cast<char>(value);
  return out;
}

Call sample_call() {
  return {.method = "DHCP.Allocate",
          .sequence = 300,
          .container_id = "pod1",
          .netns = "/run/netns/pod1",
          .ifname = "eth0",
          .args = "A=B",
          .path = "/opt/cni/bin",
          .input = std::string(500, 'x')};
}

}  // namespace

TEST_CASE("numbers have the form of Go's gob") {
  CHECK(dhcp::gob::unsigned_integer(7) == bytes({7}));
  CHECK(dhcp::gob::unsigned_integer(256) == bytes({0xfe, 1, 0}));
  CHECK(dhcp::gob::unsigned_integer(200) == bytes({0xff, 200}));
  CHECK(dhcp::gob::signed_integer(-65) == bytes({0xff, 0x81}));
  CHECK(dhcp::gob::signed_integer(64) == bytes({0xff, 0x80}));
  CHECK(dhcp::gob::signed_integer(-64) == bytes({0x7f}));
}

TEST_CASE("a call begins with the bytes of the reference plugins") {
  const std::string call = encode(Call{.method = "DHCP.Allocate"});
  const std::string wanted =
      bytes({0x2e, 0x7f, 3, 1, 1, 7}) + "Request" + bytes({1, 0xff, 0x80, 0, 1, 2, 1, 0x0d}) +
      "ServiceMethod" + bytes({1, 0x0c, 0, 1, 3}) + "Seq" + bytes({1, 6, 0, 0, 0}) +
      bytes({0x12, 0xff, 0x80, 1, 0x0d}) + "DHCP.Allocate" + bytes({0}) +
      bytes({0x6c, 0xff, 0x81, 3, 1, 1, 7}) + "CmdArgs" + bytes({1, 0xff, 0x82, 0, 1, 7});
  CHECK(call.substr(0, wanted.size()) == wanted);
}

TEST_CASE("a call is read back as it was written, however it comes") {
  const std::string sent = encode(sample_call());
  Decoder decoder;
  std::string received;
  std::vector<dhcp::gob::Value> values;
  for (const char byte : sent) {
    received += byte;
    if (auto value = decoder.take(received)) values.push_back(*value);
  }
  REQUIRE(values.size() == 2);
  CHECK(dhcp::call_from(values[0], values[1]) == sample_call());
  CHECK(received.empty());
}

TEST_CASE("a result is read back as it was written, also a second one of the connection") {
  const auto ip = [](const char* text) { return *netlink::Ip::parse(text); };
  const cni::Result result{
      .ips = {{.cidr = {ip("10.1.2.3"), 20}, .gateway = ip("10.1.2.1")}},
      .routes = {{.dst = {ip("0.0.0.0"), 0}, .gateway = ip("10.1.2.1"), .priority = 5},
                 {.dst = {ip("192.0.2.0"), 24}, .gateway = ip("0.0.0.0"), .scope = 253}},
      .dns = {.nameservers = {"10.1.2.53"}, .domain = "a.test", .search = {"a.test", "b.test"}}};
  dhcp::AnswerEncoder encoder;
  Decoder decoder;
  for (int i = 0; i < 2; ++i) {
    std::string sent = encoder.result(sample_call(), result);
    const auto header = decoder.take(sent);
    const auto body = decoder.take(sent);
    REQUIRE(body);
    CHECK(header->field("ServiceMethod").text == "DHCP.Allocate");
    CHECK(header->field("Seq").number == 300);
    CHECK(header->field("Error").text.empty());
    CHECK(dhcp::result_from(*body) == result);
  }
  std::string sent = encoder.error(sample_call(), "no more tries");
  CHECK(decoder.take(sent)->field("Error").text == "no more tries");
  CHECK(decoder.take(sent).has_value());
}

TEST_CASE("what is no gob is refused, and never waited for without end") {
  for (const std::string& text : {bytes({0xf7, 1, 1, 1, 1, 1, 1, 1, 1, 1}),  // 9 bytes of a number
                                  bytes({0xfc, 0x7f, 0, 0, 0}),              // 2 GiB
                                  bytes({2, 0xff, 0x80}),  // of a type that is not defined
                                  bytes({1, 0x0c}),        // a string alone
                                  bytes({2, 0x7f, 9}), bytes({4, 0x7f, 7, 1, 0})}) {
    Decoder decoder;
    std::string received = text;
    CHECK_THROWS_AS(decoder.take(received), cni::Error);
  }
}
