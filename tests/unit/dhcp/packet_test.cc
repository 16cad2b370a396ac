#include "plugins/dhcp/protocol/packet.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/dhcp/ip.h"

using dhcp::Bytes;
using dhcp::datagram_of;
using dhcp::ip_in;
using dhcp::ips_in;
using dhcp::Message;
using dhcp::MessageType;
using dhcp::text_in;
using dhcp::u32_in;
namespace option = dhcp::option;

namespace {

Message sample_message() {
  Message message{.reply = true,
                  .xid = 0x12345678,
                  .seconds = 7,
                  .broadcast = true,
                  .ciaddr = ip("10.0.0.1"),
                  .yiaddr = ip("10.0.0.2"),
                  .siaddr = ip("10.0.0.3"),
                  .giaddr = ip("10.0.0.4"),
                  .chaddr = *netlink::Mac::parse("02:00:00:00:00:01")};
  message.set_type(MessageType::kAck);
  message.options[option::kServerId] = {10, 0, 0, 3};
  return message;
}

}  // namespace

TEST_CASE("a message is read back as it was written, options in ascending order") {
  const Bytes bytes = encode(sample_message());
  CHECK(bytes.size() == 300);
  CHECK(dhcp::decode(bytes) == sample_message());
  CHECK(bytes[240] == option::kMessageType);
  CHECK(bytes[243] == option::kServerId);
}

TEST_CASE("a long option is written in parts and read as one") {
  Message message = sample_message();
  message.options[option::kVendorClass] = Bytes(600, 'x');
  CHECK(dhcp::decode(encode(message)) == message);
}

TEST_CASE("no length is trusted") {
  const Bytes bytes = encode(sample_message());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto message = dhcp::decode(netlink::View(bytes).first(size));
    CHECK(message.has_value() == (size >= 240));
  }
  Bytes broken = bytes;
  broken[241] = 255;  // longer than the packet
  CHECK_FALSE(dhcp::decode(broken)->type());
  for (const std::size_t at : {0U, 1U, 2U, 236U}) {  // operation, hardware, its size, cookie
    broken = bytes;
    broken[at] = 98;
    CHECK_FALSE(dhcp::decode(broken));
  }
}

TEST_CASE("options may go on in the file and the server name") {
  Message message = sample_message();
  message.options[option::kOverload] = {3};
  Bytes bytes = encode(message);
  const Bytes in_file{option::kRouters, 4, 10, 0, 0, 254, option::kEnd};
  const Bytes in_name{option::kRouters, 4, 10, 0, 0, 253, option::kEnd};
  std::copy(in_file.begin(), in_file.end(), bytes.begin() + 108);
  std::copy(in_name.begin(), in_name.end(), bytes.begin() + 44);
  const auto read = dhcp::decode(bytes);
  CHECK(ips_in(read->options, option::kRouters) == std::vector{ip("10.0.0.254"), ip("10.0.0.253")});
}

TEST_CASE("values of another length are none") {
  dhcp::Options options{{option::kLeaseTime, {0, 0, 1}}, {option::kRouters, {10, 0, 0, 1, 10}}};
  CHECK_FALSE(u32_in(options, option::kLeaseTime));
  CHECK(ips_in(options, option::kRouters) == std::vector{ip("10.0.0.1")});
  options[option::kRouters] = {10, 0, 0};
  CHECK_FALSE(ip_in(options, option::kRouters));
  options[option::kMessage] = {'n', 'o', '\n', 0x1b, '!'};
  CHECK(text_in(options, option::kMessage) == "no!");
}

TEST_CASE("a datagram carries its payload, and only whole") {
  const Bytes payload = encode(sample_message());
  Bytes packet = datagram_of(payload, {ip("0.0.0.0"), ip("255.255.255.255")});
  CHECK_FALSE(dhcp::payload_of(packet, false));  // to the server's port
  std::swap(packet[21], packet[23]);             // 67 and 68: the sum stays
  const auto read = dhcp::payload_of(packet, false);
  REQUIRE(read);
  CHECK(std::equal(read->begin(), read->end(), payload.begin(), payload.end()));
  for (std::size_t size = 0; size < packet.size(); ++size) {
    CHECK_FALSE(dhcp::payload_of(netlink::View(packet).first(size), false));
  }
  packet.resize(packet.size() + 20);  // padding of the link
  CHECK(dhcp::payload_of(packet, false).has_value());
  packet[100] ^= 1;
  CHECK_FALSE(dhcp::payload_of(packet, false));
  CHECK(dhcp::payload_of(packet, true).has_value());  // a sum that hardware was to compute
  packet[6] = 0x20;                                   // more fragments
  CHECK_FALSE(dhcp::payload_of(packet, true));
}
