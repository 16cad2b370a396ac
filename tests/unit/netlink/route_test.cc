#include "netlink/route/route.h"

#include <doctest/doctest.h>
#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <vector>

#include "netlink/route/address.h"
#include "netlink/route/bridge_vlan.h"
#include "netlink/route/neighbour.h"
#include "netlink/types/error.h"
#include "tests/judge/judge.h"

using netlink::cat;
using netlink::Cidr;
using netlink::Ip;
using netlink::Link;
using netlink::Mac;
using netlink::Reply;

namespace {

// The kernel's messages have the form of the requests, so what encode wrote decode must read.
Reply reply(const netlink::RouteRequest& request) { return Reply(request.message.bytes()); }

Link eth0() {
  Link link;
  link.index = 7;
  link.name = "eth0";
  return link;
}

const Mac kMac = Mac::parse("02:00:00:00:00:01").value();
const Mac kPeerMac = Mac::parse("02:00:00:00:00:02").value();

// A route to 10.9.0.0/16 or fd00:9::/32 by 10.0.0.1 on link 7 and 10.0.0.2 on link 8, as the kernel
// shows it: the second link is down.
netlink::Bytes multipath(bool v4) {
  rtmsg head{};
  head.rtm_family = v4 ? AF_INET : AF_INET6;
  head.rtm_dst_len = v4 ? 16 : 32;
  head.rtm_table = RT_TABLE_MAIN;
  head.rtm_type = RTN_UNICAST;
  netlink::Message message(RTM_NEWROUTE, 0, head);
  message.put(RTA_DST, Ip::parse(v4 ? "10.9.0.0" : "fd00:9::").value());
  message.nest(RTA_MULTIPATH, [&] {
    for (int n = 0; n < 2; ++n) {
      const Ip gateway = Ip::parse(cat(v4 ? "10.0.0." : "fd00::", n + 1)).value();
      rtnexthop hop{};
      hop.rtnh_len = static_cast<unsigned short>(sizeof hop + 4 + gateway.size());
      hop.rtnh_flags = n == 0 ? 0 : RTNH_F_LINKDOWN;
      hop.rtnh_hops = static_cast<unsigned char>(n);
      hop.rtnh_ifindex = 7 + n;
      message.append(hop);
      message.put(RTA_GATEWAY, gateway);
    }
  });
  const auto bytes = message.bytes();
  return {bytes.begin(), bytes.end()};
}

Link link_of(int index) {
  Link out;
  out.index = index;
  return out;
}

}  // namespace

TEST_CASE("a multipath route is one for each of its next hops to who looks for a link") {
  const auto bytes = multipath(true);
  const auto hops = netlink::each_hop(netlink::decode_route(Reply(bytes)));
  REQUIRE(hops.size() == 2);
  CHECK(hops[0].link == 7);
  CHECK(hops[1].link == 8);
  CHECK(hops[1].gateway == Ip::parse("10.0.0.2"));
  CHECK(hops[1].multipath.empty());
}

TEST_CASE("IPv6 next hops are copied one by one, and removed alone") {
  const auto bytes = multipath(false);
  const auto hops = netlink::copy_hops(Reply(bytes));
  REQUIRE(hops.size() == 2);
  CHECK(hops[1].is_part);
  CHECK(hops[1].route.link == 8);
  CHECK(hops[1].route.gateway == Ip::parse("fd00::2"));
  CHECK(!netlink::part_by(hops[0], link_of(8)));
  const auto requests = netlink::remove(hops[1]);
  REQUIRE(requests.size() == 1);
  CHECK(reply(requests[0]).type() == RTM_DELROUTE);
  const auto removed = netlink::decode_route(reply(requests[0]));
  CHECK(removed.gateway == Ip::parse("fd00::2"));
  CHECK(removed.link == 8);
}

TEST_CASE("an IPv4 multipath route is replaced by what is left of it") {
  const auto bytes = multipath(true);
  const auto hops = netlink::copy_hops(Reply(bytes));
  REQUIRE(hops.size() == 1);
  CHECK(!netlink::part_by(hops[0], link_of(9)));
  const auto part = netlink::part_by(hops[0], link_of(8));
  REQUIRE(part);
  CHECK(part->is_part);
  CHECK(part->route.gateway == Ip::parse("10.0.0.2"));
  const auto requests = netlink::remove(*part);
  REQUIRE(requests.size() == 2);
  CHECK(reply(requests[0]).type() == RTM_NEWROUTE);
  CHECK(netlink::decode_route(reply(requests[0])).link == 7);
  CHECK(reply(requests[1]).type() == RTM_DELROUTE);
  CHECK(netlink::decode_route(reply(requests[1])).multipath.size() == 2);
  // The kernel takes no flag that says how the link is.
  const auto again = netlink::add(*part, 100);
  const auto hop = reply(again).attributes(sizeof(rtmsg)).find(RTA_MULTIPATH).as<rtnexthop>();
  CHECK(hop.rtnh_flags == 0);
  CHECK(hop.rtnh_hops == 1);
  CHECK(hop.rtnh_ifindex == 8);
}

TEST_CASE("a route by a nexthop object is removed by its number, and copied without it") {
  auto request = netlink::add(
      eth0(), {.dst = Cidr::parse("10.9.0.0/16").value(), .gateway = Ip::parse("10.0.0.1")});
  request.message.put_u32(RTA_NH_ID, 5);
  const auto copy = netlink::copy_route(reply(request));
  const auto again = netlink::add(copy, 100);
  const auto copied = reply(again).attributes(sizeof(rtmsg));
  CHECK_FALSE(copied.has(RTA_NH_ID));
  CHECK(copied.has(RTA_GATEWAY));
  const auto requests = netlink::remove(copy);
  const auto removed = reply(requests.at(0)).attributes(sizeof(rtmsg));
  CHECK(removed.find(RTA_NH_ID).u32() == 5);
  CHECK_FALSE(removed.has(RTA_GATEWAY));
  CHECK_FALSE(removed.has(RTA_OIF));
}

TEST_CASE("a bridge is asked for by name, address, MTU and VLAN filtering") {
  const auto request = netlink::add(
      netlink::Bridge{.name = "cni0", .mac = kMac, .mtu = 1400, .vlan_filtering = true});
  CHECK(request.operation == "create bridge 'cni0'");
  const Link link = netlink::decode_link(reply(request));
  CHECK(link.name == "cni0");
  CHECK(link.kind == "bridge");
  CHECK(link.mac == kMac);
  CHECK(link.mtu == 1400);
  CHECK(link.vlan_filtering);
  CHECK_FALSE(link.up);
}

TEST_CASE("a veth pair names both ends, the master and the peer's namespace in one message") {
  const auto ns = netlink::NetNs::current();
  const auto request =
      netlink::add(netlink::Veth{.end = {.name = "veth1", .mac = kMac, .master = 5},
                                 .peer = {.name = "eth0", .mac = kPeerMac},
                                 .peer_ns = ns,
                                 .mtu = 1500});
  const Link outer = netlink::decode_link(reply(request));
  CHECK(outer.name == "veth1");
  CHECK(outer.master == 5);
  CHECK(outer.kind == "veth");
  const auto info = reply(request).attributes(sizeof(ifinfomsg)).nested(IFLA_LINKINFO);
  const auto peer = info.nested(IFLA_INFO_DATA).find(VETH_INFO_PEER).value;
  REQUIRE(peer.size() > sizeof(ifinfomsg));
  const netlink::Attributes in_peer(peer.subspan(sizeof(ifinfomsg)));
  CHECK(in_peer.text(IFLA_IFNAME) == "eth0");
  CHECK(in_peer.find(IFLA_NET_NS_FD).as<int>() == ns.fd());
}

TEST_CASE("a link says what waits at it and whether it takes 127.0.0.0/8") {
  netlink::Message message(RTM_NEWLINK, 0, ifinfomsg{});
  CHECK(netlink::decode_link(Reply(message.bytes())).qdisc.empty());
  message.put(IFLA_QDISC, std::string_view("tbf"));
  std::array<int, 33> settings{};
  settings.at(25) = 1;  // IPV4_DEVCONF_ROUTE_LOCALNET - 1
  message.nest(IFLA_AF_SPEC, [&] {
    message.nest(AF_INET, [&] { message.put_struct(IFLA_INET_CONF, settings); });
  });
  const Link link = netlink::decode_link(Reply(message.bytes()));
  CHECK(link.qdisc == "tbf");
  CHECK(link.route_localnet);
  CHECK_FALSE(link.ipv6);
}

TEST_CASE("only the flags that are to change are in the change mask") {
  const auto request = netlink::set_link(eth0(), {.up = true, .gso_max_size = 3512});
  const auto head = reply(request).fixed<ifinfomsg>();
  CHECK(head.ifi_index == 7);
  CHECK(head.ifi_change == 1U);
  CHECK(head.ifi_flags == 1U);
  CHECK(netlink::decode_link(reply(request)).gso_max_size == 3512);
  const auto down = netlink::set_link(eth0(), {.up = false});
  CHECK(reply(down).fixed<ifinfomsg>().ifi_change == 1U);
  CHECK(reply(down).fixed<ifinfomsg>().ifi_flags == 0U);
}

TEST_CASE("VLANs of a port are asked for one by one, or as a range with two ends") {
  const std::vector<netlink::PortVlan> wanted{{.first = 7, .last = 7, .pvid = true},
                                              {.first = 256, .last = 4094, .untagged = true}};
  for (const auto& request : {add_vlans(eth0(), wanted), remove_vlans(eth0(), wanted)}) {
    std::vector<unsigned> ids;
    const auto found = reply(request).attributes(sizeof(ifinfomsg)).nested(IFLA_AF_SPEC);
    for (const netlink::Attribute& one : found) {
      if (one.type == IFLA_BRIDGE_VLAN_INFO) ids.push_back(one.as<bridge_vlan_info>().vid);
    }
    CHECK(ids == std::vector<unsigned>{7, 256, 4094});
  }
}

TEST_CASE("an IPv4 address has a broadcast address where its prefix leaves room") {
  const auto broadcast = [](const char* text) {
    const auto request =
        netlink::add(eth0(), netlink::NewAddress{.cidr = Cidr::parse(text).value()});
    const auto found = reply(request).attributes(sizeof(ifaddrmsg)).find(IFA_BROADCAST).value;
    return found.empty() ? "" : Ip::from_bytes(found.data(), found.size()).str();
  };
  CHECK(broadcast("10.1.2.3/24") == "10.1.2.255");
  CHECK(broadcast("10.1.2.3/30") == "10.1.2.3");
  CHECK(broadcast("10.1.2.3/31").empty());
  CHECK(broadcast("10.1.2.3/32").empty());
  CHECK(broadcast("fd00::1/64").empty());
}

TEST_CASE("an address is read back as it was asked for") {
  for (const char* text : {"10.1.2.3/24", "fd00::1/64", "10.0.0.1/32"}) {
    const Cidr cidr = Cidr::parse(text).value();
    const auto request = netlink::add(eth0(), netlink::NewAddress{.cidr = cidr, .no_dad = true});
    const auto address = netlink::decode_address(reply(request));
    CHECK(address.cidr == cidr);
    CHECK(address.link == 7);
    CHECK_FALSE(address.tentative);
  }
}

TEST_CASE("the flags of an address are together in one attribute") {
  const auto flags = [](const char* text, bool no_dad, bool no_prefix_route) -> std::uint32_t {
    const auto request =
        netlink::add(eth0(), netlink::NewAddress{.cidr = Cidr::parse(text).value(),
                                                 .no_dad = no_dad,
                                                 .no_prefix_route = no_prefix_route});
    return reply(request).attributes(sizeof(ifaddrmsg)).find(IFA_FLAGS).u32();
  };
  CHECK(flags("fd00::1/64", true, true) == (IFA_F_NODAD | IFA_F_NOPREFIXROUTE));
  CHECK(flags("fd00::1/64", true, false) == IFA_F_NODAD);
  CHECK(flags("10.1.2.3/24", true, true) == IFA_F_NOPREFIXROUTE);
  CHECK(flags("10.1.2.3/24", true, false) == 0);
}

TEST_CASE("a route is read back as it was asked for, high tables included") {
  const netlink::LinkRoute table[] = {
      {.dst = Cidr::parse("0.0.0.0/0").value(), .gateway = Ip::parse("10.0.0.1")},
      {.dst = Cidr::parse("10.9.0.0/16").value(), .table = 100, .priority = 50, .scope = 253},
      {.dst = Cidr::parse("fd00:1::/32").value(), .gateway = Ip::parse("fd00::1"), .table = 70000},
      {.dst = Cidr::parse("10.1.0.1/32").value(), .source = Ip::parse("10.1.0.2")},
      {.dst = Cidr::parse("fd00::1/128").value(), .source = Ip::parse("fd00::2")},
  };
  for (const auto& wanted : table) {
    const auto seen = netlink::decode_route(reply(netlink::add(eth0(), wanted)));
    CHECK(seen.dst == wanted.dst);
    CHECK(seen.gateway == wanted.gateway);
    CHECK(seen.source == wanted.source);
    CHECK(seen.table == wanted.table);
    CHECK(seen.priority == wanted.priority);
    CHECK(seen.scope == wanted.scope);
    CHECK(seen.link == 7);
  }
}

TEST_CASE("a route's operation says where it goes") {
  const netlink::LinkRoute route{.dst = Cidr::parse("10.0.0.0/8").value(),
                                 .gateway = Ip::parse("10.1.0.1")};
  CHECK(netlink::add(eth0(), route).operation == "add route 10.0.0.0/8 via 10.1.0.1 on 'eth0'");
}

TEST_CASE("what may be gone already is tolerated where it is removed") {
  CHECK(netlink::remove_link(eth0()).tolerated == std::vector<int>{ENODEV});
  CHECK(netlink::remove(eth0(), Cidr::parse("10.0.0.1/8").value()).tolerated ==
        std::vector<int>{EADDRNOTAVAIL});
  CHECK(netlink::correct_neighbour(eth0(), Ip::parse("10.0.0.1").value(), kMac).tolerated ==
        std::vector<int>{ENOENT});
}

TEST_CASE("a message that is cut short is refused, not read past its end") {
  const judge::AnyBytes cut_short;
  const auto request = netlink::add(netlink::Bridge{.name = "cni0", .mac = kMac});
  const netlink::View whole = request.message.bytes();
  CHECK_THROWS_AS(netlink::decode_link(Reply(whole.first(NLMSG_HDRLEN + 4))),
                  std::invalid_argument);
  for (auto size = NLMSG_HDRLEN + sizeof(ifinfomsg); size < whole.size(); ++size) {
    CHECK_NOTHROW(netlink::decode_link(Reply(whole.first(size))));
  }
}
