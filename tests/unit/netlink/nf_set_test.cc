#include <doctest/doctest.h>

#include <stdexcept>

#include "netlink/nf/batch.h"
#include "netlink/nf/set.h"
#include "netlink/types/error.h"
#include "tests/judge/judge.h"

using namespace netlink;
using namespace netlink::nf;

namespace {

const KeyType kPort{Type::kInetProto, Type::kInetService};
const KeyType kTarget{Type::kIpv4Address, Type::kInetService};
const SetId kPorts{TableFamily::kIp, "t", "dnat_any"};

constexpr std::size_t kHeaders = 20;  // nlmsghdr and nfgenmsg

Attributes attributes_of(const Message& message) {
  return Attributes(message.bytes().subspan(kHeaders));
}

std::string hex(std::span<const std::uint8_t> bytes) {
  std::string out;
  for (const std::uint8_t byte : bytes) {
    constexpr const char* kDigits = "0123456789abcdef";
    out += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

Bytes port_key(std::uint16_t port) {
  return concatenate({value_of_protocol(6), value_of_port(port)});
}

Element element(std::uint16_t port) {
  return {port_key(port), concatenate({value_of(*Ip::parse("10.0.0.2")), value_of_port(80)}),
          "of a pod"};
}

}  // namespace

// The numbers and lengths are those that nft 1.0.6 sends.
TEST_CASE("types are numbered and measured as nft does it") {
  CHECK(kPort.id() == 781);
  CHECK(kPort.length() == 8);
  CHECK(kTarget.id() == 461);
  CHECK(kTarget.length() == 8);
  const KeyType target6{Type::kIpv6Address, Type::kInetService};
  CHECK(target6.id() == 525);
  CHECK(target6.length() == 20);
  const KeyType hairpin{Type::kIfname, Type::kInetProto, Type::kInetService};
  CHECK(hairpin.id() == 0x2930d);
  CHECK(hairpin.length() == 24);
  const KeyType four{Type::kIpv4Address, Type::kIfname, Type::kInetProto, Type::kInetService};
  CHECK(four.id() == 0x1e930d);
  CHECK(four.length() == 28);
  CHECK(four.str() == "ipv4_addr . ifname . inet_proto . inet_service");
  CHECK(four.byte_order() == 0);
  CHECK(KeyType{Type::kInetService}.length() == 2);
  CHECK(KeyType{Type::kInetService}.byte_order() == 2);
  CHECK(KeyType{Type::kMark}.byte_order() == 1);
}

TEST_CASE("keys are made of padded parts") {
  CHECK(hex(port_key(8080)) == "060000001f900000");
  CHECK(hex(element(8080).data) == "0a00000200500000");
  CHECK(hex(concatenate({value_of_ifname("cni0"), value_of_protocol(17)})) ==
        "636e693000000000000000000000000011000000");
  CHECK_THROWS_AS(value_of_ifname("a-name-of-16-byt"), std::invalid_argument);
}

TEST_CASE("a map says its types, their byte orders and its comment") {
  const Message message = encode(Set{kPorts, kPort, kTarget, "xx"}, 3).front();
  // table, name, flags, key type and length, data type and length, id, userdata
  CHECK(hex(message.bytes().subspan(kHeaders)) ==
        "0600010074000000"
        "0d000200646e61745f616e7900000000"
        "0800030000000008"
        "080004000000030d"
        "0800050000000008"
        "08000600000001cd"
        "0800070000000008"
        "08000a0000000003"
        "15000d00000400000000010400000000070378780000"
        "0000");
}

TEST_CASE("a verdict map says so in the place of a type") {
  const Message message = encode(Set{kPorts, kPort, KeyType{Type::kVerdict}}).front();
  CHECK(hex(message.bytes().subspan(kHeaders + 24)) ==
        "0800030000000008"
        "080004000000030d"
        "0800050000000008"
        "08000600ffffff00"
        "0800070000000000"
        "08000a0000000001"
        "10000d00000400000000010400000000");
}

TEST_CASE("a set has no data, and no comment where there is none") {
  const Message message = encode(Set{kPorts, kPort}).front();
  CHECK(hex(message.bytes().subspan(kHeaders + 24)) ==
        "0800030000000000"
        "080004000000030d"
        "0800050000000008"
        "08000a0000000001"
        "0a000d000004000000000000");
}

TEST_CASE("an element reads back as it was written") {
  const Element verdict{port_key(82), {}, "of a pod", Verdict{-4, "c"}};  // NFT_GOTO
  const AddElements change{kPorts, {element(80), {port_key(81)}, verdict}};
  const auto messages = encode_elements(change);
  REQUIRE(messages.size() == 1);
  CHECK(decode_elements(attributes_of(messages.front())) == change.elements);
}

TEST_CASE("many elements become several messages, in order, none too long for an attribute") {
  AddElements change{kPorts, {}, true};
  for (int i = 0; i < 5000; ++i) change.elements.push_back(element(static_cast<std::uint16_t>(i)));
  std::vector<Element> back;
  const auto messages = encode_elements(change);
  CHECK(messages.size() > 5);
  for (const Message& message : messages) {
    CHECK(message.bytes().size() < 65536);
    for (const Element& one : decode_elements(attributes_of(message))) back.push_back(one);
  }
  CHECK(back == change.elements);
  CHECK(encode(AddElements{kPorts, {}}).empty());
}

TEST_CASE("elements at their longest fit") {
  Element longest{Bytes(64, 1), Bytes(64, 2), std::string(253, 'x')};
  const AddElements change{{TableFamily::kIp6, std::string(255, 't'), std::string(255, 's')},
                           std::vector<Element>(1000, longest)};
  std::size_t count = 0;
  for (const Message& message : encode_elements(change)) {
    count += decode_elements(attributes_of(message)).size();
  }
  CHECK(count == 1000);
  CHECK(encode_elements({change.set, {longest}}).size() == 1);
  longest.comment += 'x';
  CHECK_THROWS_AS(encode_elements({change.set, {longest}}), Error);
}

TEST_CASE("networks are intervals, and neighbours are one") {
  const auto text_of = [](std::initializer_list<const char*> networks) {
    std::vector<Cidr> all;
    for (const char* const one : networks) all.push_back(*Cidr::parse(one));
    std::string out;
    for (const Element& one : intervals_of(all)) {
      out +=
          Ip::from_bytes(one.key.data(), one.key.size()).str() + (one.ends_interval ? "; " : "-");
    }
    return out;
  };
  CHECK(text_of({}).empty());
  CHECK(text_of({"10.1.0.0/16"}) == "10.1.0.0-10.2.0.0; ");
  CHECK(text_of({"10.1.128.0/17", "10.3.0.0/16", "10.1.0.0/17"}) ==
        "10.1.0.0-10.2.0.0; 10.3.0.0-10.4.0.0; ");
  CHECK(text_of({"255.255.255.0/24", "10.0.0.0/32"}) == "10.0.0.0-10.0.0.1; 255.255.255.0-");
  CHECK(text_of({"0.0.0.0/0"}) == "0.0.0.0-");
  CHECK(text_of({"fd00::/8", "fe00::/8"}) == "fd00::-ff00::; ");
}

TEST_CASE("an interval set says so, its ends come back, and it can be removed") {
  const Set set{.id = kPorts, .key = {Type::kIpv4Address}, .intervals = true};
  Batch batch;
  batch.add(set).add(kPorts, intervals_of({*Cidr::parse("10.1.0.0/16")})).remove(kPorts);
  CHECK(batch.dump() == R"(add set ip t dnat_any type ipv4_addr flags interval
add elements ip t dnat_any
  element 0x0000010a
  element 0x0000020a end
delete set ip t dnat_any
)");
  const auto messages =
      encode_elements(AddElements{kPorts, intervals_of({*Cidr::parse("10.1.0.0/16")})});
  CHECK(decode_elements(attributes_of(messages.front())) ==
        intervals_of({*Cidr::parse("10.1.0.0/16")}));
}

TEST_CASE("odd bytes are harmless as elements") {
  const judge::AnyBytes harmless;
  const auto messages = encode_elements(AddElements{kPorts, {element(80)}});
  const auto whole = messages.front().bytes().subspan(kHeaders);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK(decode_elements(Attributes(cut)).size() <= 1);
    for (const std::uint8_t odd : Bytes{0x00, 0x01, 0xff}) {
      Bytes bent(whole.begin(), whole.end());
      bent[size] = odd;
      CHECK(decode_elements(Attributes(bent)).size() <= 2);
    }
  }
}

TEST_CASE("a batch prints sets and elements") {
  Batch batch;
  batch.add(Set{kPorts, kPort, kTarget, "xx"});
  batch.add(kPorts, {element(80)}).add_new(kPorts, {{port_key(81), {}, "", Verdict{-4, "c"}}});
  batch.remove(kPorts, {port_key(80)}).remove(DeleteTable{TableFamily::kIp, "t"});
  CHECK(
      batch.dump() ==
      R"(add map ip t dnat_any type inet_proto . inet_service : ipv4_addr . inet_service comment "xx"
add elements ip t dnat_any
  element 0x00000006 0x00005000 : 0x0200000a 0x00005000 comment "of a pod"
add elements ip t dnat_any exclusive
  element 0x00000006 0x00005100 : [ immediate reg 0 goto -> c ]
delete elements ip t dnat_any
  element 0x00000006 0x00005000
delete table ip t
)");
  CHECK(describe(batch.changes()[0]) == "add map 'ip t dnat_any'");
  CHECK(describe(batch.changes()[2]) == "add elements 'ip t dnat_any'");
}
