#include "plugins/dhcp/protocol/lease.h"

#include <doctest/doctest.h>

#include "libcni/common/error.h"
#include "tests/unit/dhcp/ip.h"

using dhcp::Bytes;
using dhcp::Lease;
using dhcp::Message;
using dhcp::Time;
using netlink::Cidr;
using std::chrono::seconds;
namespace option = dhcp::option;

namespace {

Message ack_message() {
  Message message{.reply = true, .yiaddr = ip("10.1.2.3")};
  message.options = {{option::kSubnetMask, {255, 255, 255, 0}},
                     {option::kServerId, {10, 1, 2, 1}},
                     {option::kRouters, {10, 1, 2, 254}},
                     {option::kLeaseTime, {0, 0, 0, 100}}};
  return message;
}

}  // namespace

TEST_CASE("a lease counts from the request, T1 at half and T2 at seven eighths of it") {
  const Lease lease = lease_of(ack_message(), seconds(1000));
  CHECK(lease.address.str() == "10.1.2.3/24");
  CHECK(lease.gateway == ip("10.1.2.254"));
  CHECK(lease.server == ip("10.1.2.1"));
  CHECK(lease.renew == seconds(1050));
  CHECK(lease.rebind == Time(1'087'500));
  CHECK(lease.expire == seconds(1100));
}

TEST_CASE("the server's T1 and T2 count if they are in order") {
  Message message = ack_message();
  message.options[option::kRenewalTime] = {0, 0, 0, 10};
  message.options[option::kRebindingTime] = {0, 0, 0, 20};
  CHECK(lease_of(message, Time(0)).renew == seconds(10));
  CHECK(lease_of(message, Time(0)).rebind == seconds(20));
  message.options[option::kRebindingTime] = {0, 0, 0, 100};
  CHECK(lease_of(message, Time(0)).renew == seconds(50));
  message.options[option::kRebindingTime] = {0, 0, 0, 5};
  CHECK(lease_of(message, Time(0)).rebind == Time(87'500));
}

TEST_CASE("a lease may have no end, no length, or hardly any") {
  Message message = ack_message();
  message.options[option::kLeaseTime] = {255, 255, 255, 255};
  CHECK(lease_of(message, Time(0)).expire == dhcp::kNever);
  CHECK(lease_of(message, Time(0)).renew == dhcp::kNever);
  message.options.erase(option::kLeaseTime);
  CHECK(lease_of(message, Time(0)).expire == std::chrono::hours(1));
  message.options[option::kLeaseTime] = {0, 0, 0, 0};
  CHECK(lease_of(message, Time(0)).renew == seconds(1));
}

TEST_CASE("what is no lease is refused") {
  const auto refused = [](const Message& message) {
    CHECK_THROWS_AS(lease_of(message, Time(0)), cni::Error);
  };
  Message message = ack_message();
  message.options.erase(option::kSubnetMask);
  CHECK_THROWS_WITH(lease_of(message, Time(0)), "DHCP option Subnet Mask not found in DHCPACK");
  for (const Bytes& mask : {Bytes{255, 0, 255, 0}, Bytes{0, 0, 0, 0}, Bytes{255, 255, 255}}) {
    message.options[option::kSubnetMask] = mask;
    refused(message);
  }
  for (const char* address : {"0.0.0.0", "127.0.0.1", "224.0.0.1", "255.255.255.255", "10.1.2.0",
                              "10.1.2.255", "0.1.2.3", "240.0.0.1"}) {
    message = ack_message();
    message.yiaddr = ip(address);
    refused(message);
  }
  message = ack_message();
  message.options.erase(option::kServerId);
  refused(message);
  for (const Bytes& server :
       {Bytes{0, 0, 0, 0}, Bytes{127, 0, 0, 1}, Bytes{224, 0, 0, 1}, Bytes{255, 255, 255, 255},
        Bytes{10, 1, 2, 0}, Bytes{10, 1, 2, 255}, Bytes{10, 1, 2, 3}}) {
    message.options[option::kServerId] = server;
    refused(message);
  }
}

TEST_CASE("classless routes replace all others") {
  Message message = ack_message();
  message.options[option::kStaticRoutes] = {10, 0, 0, 0, 10, 1, 2, 9, 192, 168, 1, 0, 10, 1, 2, 8};
  auto routes = lease_of(message, Time(0)).routes;
  REQUIRE(routes.size() == 3);
  CHECK(routes[0].dst.str() == "10.0.0.0/8");
  CHECK(routes[1].dst.str() == "192.168.1.0/24");
  CHECK(routes[1].gateway == ip("10.1.2.8"));
  CHECK(routes[2].dst.is_default());
  message.options[option::kClasslessRoutes] = {0, 10, 1, 2, 7, 25, 172, 16, 0, 128, 0, 0, 0, 0};
  routes = lease_of(message, Time(0)).routes;
  REQUIRE(routes.size() == 2);
  CHECK(routes[0].gateway == ip("10.1.2.7"));
  CHECK(routes[1].dst.str() == "172.16.0.128/25");
  CHECK(routes[1].scope == 253);
  message.options[option::kClasslessRoutes] = {33, 1, 2, 3, 4, 5, 6, 7, 8};  // no prefix length
  CHECK(lease_of(message, Time(0)).routes.size() == 3);
  CHECK(dhcp::classless_routes(Bytes{24, 10, 0}).empty());
}

TEST_CASE("search domains are read with their pointers, and only what a resolver may be given") {
  const auto read = [](std::initializer_list<std::string> parts) {
    Bytes bytes;
    for (const std::string& part : parts) bytes.insert(bytes.end(), part.begin(), part.end());
    return dhcp::search_domains(bytes);
  };
  const std::string end(1, '\0');
  CHECK(read({"\3eng\5apple\3com", end, "\tmarketing\xc0\x04"}) ==
        std::vector<std::string>{"eng.apple.com", "marketing.apple.com"});
  CHECK(read({"\xc0", end}).empty());    // to itself
  CHECK(read({"\1a\xc0\x02"}).empty());  // forward
  CHECK(read({"\5ab"}).empty());         // cut off
  CHECK(read({"\3a\nb", end, "\1c", end}) == std::vector<std::string>{"c"});
  CHECK(read({"\x80"
              "a",
              end})
            .empty());  // an unknown label
}

TEST_CASE("a domain that would break resolv.conf is passed over") {
  Message message = ack_message();
  const std::string text = "a.test\nnameserver 192.0.2.1";
  message.options[option::kDomainName] = Bytes(text.begin(), text.end());
  message.options[option::kDnsServers] = {10, 1, 2, 53, 0, 0, 0, 0};
  const Lease lease = lease_of(message, Time(0));
  CHECK(lease.dns.domain.empty());
  CHECK(lease.dns.nameservers == std::vector<std::string>{"10.1.2.53"});
}
