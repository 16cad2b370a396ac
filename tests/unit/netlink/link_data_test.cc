#include "netlink/route/link_data.h"

#include <doctest/doctest.h>
#include <linux/if_link.h>
#include <linux/if_tun.h>
#include <linux/rtnetlink.h>

#include <cstring>
#include <string>
#include <vector>

#include "netlink/route/link.h"
#include "tests/unit/netlink/any_bytes.h"

using netlink::Ipvlan;
using netlink::Link;
using netlink::LinkData;
using netlink::Mac;
using netlink::Macvlan;
using netlink::Message;
using netlink::NewLink;
using netlink::Reply;
using netlink::Tun;
using netlink::Vlan;
using netlink::Vrf;

namespace {

const Mac kOne = Mac::parse("02:00:00:00:00:01").value();
const Mac kTwo = Mac::parse("02:00:00:00:00:02").value();

netlink::RouteRequest request(const std::string& kind, const LinkData& data) {
  return netlink::add(NewLink{.kind = kind, .name = "eth0", .data = data});
}

// As the kernel shows the link that the request asks for: its messages have the form of requests.
Link shown(const netlink::RouteRequest& request) {
  return netlink::decode_link(Reply(request.message.bytes()));
}

netlink::Attributes data_in(const netlink::RouteRequest& request) {
  return Reply(request.message.bytes())
      .attributes(sizeof(ifinfomsg))
      .nested(IFLA_LINKINFO)
      .nested(IFLA_INFO_DATA);
}

// Of a tun, which no request makes.
Message tun_message() {
  Message message(RTM_NEWLINK, 0, ifinfomsg{});
  message.put(IFLA_IFNAME, std::string_view("tap0"));
  message.nest(IFLA_LINKINFO, [&] {
    message.put(IFLA_INFO_KIND, std::string_view("tun"));
    message.nest(IFLA_INFO_DATA, [&] {
      message.put_u8(IFLA_TUN_TYPE, IFF_TAP);
      message.put_u8(IFLA_TUN_VNET_HDR, 1);
      message.put_u8(IFLA_TUN_PERSIST, 1);
      message.put_u32(IFLA_TUN_OWNER, 107);
      message.put_u32(IFLA_TUN_GROUP, 0);
    });
  });
  return message;
}

const Vlan kVlan{.id = 4094,
                 .protocol = Vlan::k8021ad,
                 .egress = {{0, 1}, {6, 7}, {4294967295, 3}},
                 .ingress = {{5, 3}, {7, 4294967295}}};
const Macvlan kMacvlan{
    .mode = Macvlan::Mode::kSource, .broadcast_queue = 2000, .allowed = {kOne, kTwo}};

}  // namespace

TEST_CASE("a macvlan is read back as it was asked for, in every mode") {
  using enum Macvlan::Mode;
  for (const auto mode : {kPrivate, kVepa, kBridge, kPassthru, kSource}) {
    const Macvlan wanted{.mode = mode};
    CHECK(shown(request("macvlan", wanted)).data == LinkData(wanted));
  }
  CHECK(shown(request("macvlan", kMacvlan)).data == LinkData(kMacvlan));
}

TEST_CASE("a macvlan says no more than it has to") {
  const auto asked = request("macvlan", Macvlan{});
  CHECK(data_in(asked).has(IFLA_MACVLAN_MODE));
  CHECK_FALSE(data_in(asked).has(IFLA_MACVLAN_BC_QUEUE_LEN));
  CHECK_FALSE(data_in(asked).has(IFLA_MACVLAN_MACADDR_MODE));
  CHECK(data_in(request("macvlan", kMacvlan)).find(IFLA_MACVLAN_MACADDR_MODE).u32() ==
        MACVLAN_MACADDR_SET);
}

TEST_CASE("an ipvlan is read back as it was asked for, in every mode and isolation") {
  for (const auto mode : {Ipvlan::Mode::kL2, Ipvlan::Mode::kL3, Ipvlan::Mode::kL3s}) {
    for (const auto isolation :
         {Ipvlan::Isolation::kBridge, Ipvlan::Isolation::kPrivate, Ipvlan::Isolation::kVepa}) {
      const Ipvlan wanted{.mode = mode, .isolation = isolation};
      CHECK(shown(request("ipvlan", wanted)).data == LinkData(wanted));
    }
  }
}

TEST_CASE("a VLAN is read back as it was asked for, with protocol and priorities") {
  for (const Vlan& wanted : {Vlan{}, Vlan{.id = 5}, kVlan}) {
    CHECK(shown(request("vlan", wanted)).data == LinkData(wanted));
  }
}

TEST_CASE("a VLAN's protocol is in network order, and 802.1Q goes without saying") {
  const auto asked = request("vlan", kVlan);
  const auto protocol = data_in(asked).find(IFLA_VLAN_PROTOCOL).value;
  CHECK(netlink::Bytes(protocol.begin(), protocol.end()) == netlink::Bytes{0x88, 0xa8});
  const auto usual = request("vlan", Vlan{.id = 5});
  CHECK_FALSE(data_in(usual).has(IFLA_VLAN_PROTOCOL));
}

TEST_CASE("a mapping of a VLAN is from and to, in this order") {
  const auto asked = request("vlan", kVlan);
  const auto map = data_in(asked).nested(IFLA_VLAN_EGRESS_QOS);
  const auto first = (*map.begin()).as<ifla_vlan_qos_mapping>();
  CHECK(first.from == 0);
  CHECK(first.to == 1);
}

TEST_CASE("a VRF is read back with its table") {
  for (const Vrf wanted : {Vrf{.table = 1}, Vrf{.table = 4294967295}}) {
    CHECK(shown(request("vrf", wanted)).data == LinkData(wanted));
  }
}

TEST_CASE("a tap is read with its flags and its owners, of whom root is one") {
  const Message message = tun_message();
  const Tun wanted{.tap = true, .vnet_header = true, .persistent = true, .owner = 107, .group = 0};
  CHECK(netlink::decode_link(Reply(message.bytes())).data == LinkData(wanted));
}

TEST_CASE("a tun of nobody has no owner") {
  Message message(RTM_NEWLINK, 0, ifinfomsg{});
  message.nest(IFLA_LINKINFO, [&] {
    message.put(IFLA_INFO_KIND, std::string_view("tun"));
    message.nest(IFLA_INFO_DATA, [&] {
      message.put_u8(IFLA_TUN_TYPE, IFF_TUN);
      message.put_u8(IFLA_TUN_PI, 1);
      message.put_u8(IFLA_TUN_MULTI_QUEUE, 1);
    });
  });
  CHECK(netlink::decode_link(Reply(message.bytes())).data ==
        LinkData(Tun{.packet_information = true, .multi_queue = true}));
}

TEST_CASE("what netlink does not create has no data in a request") {
  for (const LinkData& data : {LinkData(), LinkData(Tun{.tap = true})}) {
    CHECK(data_in(request("dummy", data)).bytes().empty());
    CHECK(shown(request("dummy", data)).data == LinkData());
  }
}

TEST_CASE("a new link names its parent and the parent's namespace") {
  const Link near = shown(
      netlink::add(NewLink{.kind = "vlan", .name = "eth0", .parent = 7, .data = Vlan{.id = 5}}));
  CHECK(near.parent_index == 7);
  CHECK_FALSE(near.parent_nsid);
  CHECK(near.peer_index == 0);
  for (const int id : {0, 3}) {
    const Link far = shown(netlink::add(NewLink{
        .kind = "macvlan", .name = "eth0", .parent = 7, .parent_nsid = id, .data = Macvlan{}}));
    CHECK(far.parent_index == 7);
    CHECK(far.parent_nsid == id);
    CHECK_FALSE(far.peer_nsid);
  }
}

TEST_CASE("a link is renamed by its index") {
  const auto asked = netlink::set_link({.index = 7, .name = "cni0"}, {.name = "eth0"});
  CHECK(Reply(asked.message.bytes()).fixed<ifinfomsg>().ifi_index == 7);
  CHECK(shown(asked).name == "eth0");
}

TEST_CASE("no bytes of a link's data harm") {
  const auto decode = [](const Reply& reply) { netlink::decode_link(reply); };
  harmless_for_any_bytes(request("macvlan", kMacvlan).message, decode);
  harmless_for_any_bytes(request("ipvlan", Ipvlan{.mode = Ipvlan::Mode::kL3}).message, decode);
  harmless_for_any_bytes(request("vlan", kVlan).message, decode);
  harmless_for_any_bytes(request("vrf", Vrf{.table = 7}).message, decode);
  harmless_for_any_bytes(tun_message(), decode);
}
