#include "netlink/route/link_move.h"

#include <doctest/doctest.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <string_view>
#include <vector>

#include "netlink/route/address.h"

using netlink::Link;
using netlink::Mac;
using netlink::Reply;

namespace {

const Link kDevice{.index = 7, .name = "ens5"};

}  // namespace

TEST_CASE("a link is moved and renamed in one message") {
  const auto ns = netlink::NetNs::current();
  const auto request =
      netlink::move_link(kDevice, {.to = ns, .name = "eth0", .alias = "ens5", .index = 9});
  CHECK(request.operation == "move 'ens5' to another network namespace as 'eth0'");
  const Reply message(request.message.bytes());
  CHECK(message.type() == RTM_SETLINK);
  CHECK(message.fixed<ifinfomsg>().ifi_index == 7);
  const auto attributes = message.attributes(sizeof(ifinfomsg));
  CHECK(attributes.text(IFLA_IFNAME) == "eth0");
  CHECK(attributes.text(IFLA_IFALIAS) == "ens5");
  CHECK(attributes.find(IFLA_NET_NS_FD).as<int>() == ns.fd());
  CHECK(attributes.find(IFLA_NEW_IFINDEX).as<int>() == 9);
  CHECK(request.mentions);
}

TEST_CASE("alias and index of a link that is moved stay unless given, and an empty alias is none") {
  const auto ns = netlink::NetNs::current();
  auto request = netlink::move_link(kDevice, {.to = ns, .name = "eth0"});
  auto attributes = Reply(request.message.bytes()).attributes(sizeof(ifinfomsg));
  CHECK_FALSE(attributes.has(IFLA_IFALIAS));
  CHECK_FALSE(attributes.has(IFLA_NEW_IFINDEX));
  request = netlink::move_link(kDevice, {.to = ns, .name = "eth0", .alias = ""});
  attributes = Reply(request.message.bytes()).attributes(sizeof(ifinfomsg));
  CHECK(attributes.has(IFLA_IFALIAS));
  CHECK(attributes.text(IFLA_IFALIAS).empty());
}

TEST_CASE("a link is renamed by its index") {
  const auto request = netlink::set_link(kDevice, {.name = "ens6"});
  const Reply message(request.message.bytes());
  CHECK(message.fixed<ifinfomsg>().ifi_index == 7);
  CHECK(message.attributes(sizeof(ifinfomsg)).text(IFLA_IFNAME) == "ens6");
}

TEST_CASE("a link says which hardware it is, in whatever order") {
  const Mac mac = Mac::parse("52:54:00:00:00:01").value();
  for (const bool bus_first : {true, false}) {
    netlink::Message message(RTM_NEWLINK, 0, ifinfomsg{});
    message.put(IFLA_PERM_ADDRESS, mac.bytes);
    if (bus_first) message.put(IFLA_PARENT_DEV_BUS_NAME, std::string_view("pci"));
    message.put(IFLA_PARENT_DEV_NAME, std::string_view("0000:03:00.1"));
    if (!bus_first) message.put(IFLA_PARENT_DEV_BUS_NAME, std::string_view("pci"));
    const Link link = netlink::decode_link(Reply(message.bytes()));
    CHECK(link.permanent_mac == mac);
    CHECK(link.device == "pci/0000:03:00.1");
  }
  const netlink::Message none(RTM_NEWLINK, 0, ifinfomsg{});
  const Link link = netlink::decode_link(Reply(none.bytes()));
  CHECK_FALSE(link.permanent_mac);
  CHECK(link.device.empty());
}

TEST_CASE("a macvtap stands on a link as a macvlan does") {
  netlink::Message message(RTM_NEWLINK, 0, ifinfomsg{});
  message.put_u32(IFLA_LINK, 5);
  message.nest(IFLA_LINKINFO, [&] { message.put(IFLA_INFO_KIND, std::string_view("macvtap")); });
  const Link link = netlink::decode_link(Reply(message.bytes()));
  CHECK(link.parent_index == 5);
  CHECK(link.peer_index == 0);
}

TEST_CASE("an address is added again as it was") {
  netlink::LinkAddress point;
  point.link = 7;
  point.cidr = netlink::Cidr::parse("198.51.100.1/32").value();
  point.peer = netlink::Ip::parse("198.51.100.9");
  point.label = "ens5:1";
  point.scope = RT_SCOPE_LINK;
  netlink::LinkAddress six;
  six.link = 7;
  six.cidr = netlink::Cidr::parse("2001:db8::1/64").value();
  six.flags = IFA_F_NODAD | IFA_F_NOPREFIXROUTE;
  netlink::LinkAddress plain;
  plain.link = 7;
  plain.cidr = netlink::Cidr::parse("192.0.2.1/24").value();
  plain.broadcast = netlink::Ip::parse("192.0.2.255");
  netlink::LinkAddress leased = six;
  leased.lifetime = {.preferred = 60, .valid = 4294967295};
  for (const auto& address : {point, six, plain, leased}) {
    const auto request = netlink::add_again(kDevice, address);
    CHECK(netlink::decode_address(Reply(request.message.bytes())) == address);
    CHECK(request.tolerated == std::vector<int>{EEXIST});
  }
}

TEST_CASE("of an address's flags those that are state are not added again") {
  ifaddrmsg head{};
  head.ifa_family = AF_INET6;
  head.ifa_prefixlen = 64;
  netlink::Message message(RTM_NEWADDR, 0, head);
  message.put(IFA_ADDRESS, netlink::Ip::parse("2001:db8::1").value());
  message.put_u32(IFA_FLAGS, IFA_F_PERMANENT | IFA_F_TENTATIVE | IFA_F_NODAD);
  const auto address = netlink::decode_address(Reply(message.bytes()));
  CHECK(address.permanent);
  CHECK(address.tentative);
  CHECK(address.flags == IFA_F_NODAD);
}
