#include "plugins/dhcp/daemon/client.h"

#include <doctest/doctest.h>

#include "tests/unit/dhcp/ip.h"

using dhcp::Actions;
using dhcp::Bytes;
using dhcp::Client;
using dhcp::Message;
using dhcp::MessageType;
using dhcp::Options;
using dhcp::Time;
using netlink::Mac;
using std::chrono::seconds;
namespace option = dhcp::option;

namespace {

const Mac kOwn = *Mac::parse("02:00:00:00:00:01");
const Mac kServerMac = *Mac::parse("02:00:00:00:00:99");

// A client and the server's side of what it says. Numbers are not random: no time is changed by
// them.
struct Talk {
  Client client;
  std::uint32_t numbers = 1000;

  explicit Talk(dhcp::Identity identity = {.client_id = {0, 'x'}, .wanted = {3, 1}})
      : client(std::move(identity), {}, [this] { return numbers += 2001; }) {
    client.set_mac(kOwn);
  }

  Message reply(MessageType type, const Message& to, const char* address = "10.0.0.5",
                Bytes length = {0, 0, 0, 80}) {
    Message out{.reply = true, .xid = to.xid, .yiaddr = ip(address), .chaddr = kOwn};
    out.set_type(type);
    out.options[option::kServerId] = {10, 0, 0, 1};
    out.options[option::kSubnetMask] = {255, 255, 255, 0};
    out.options[option::kLeaseTime] = std::move(length);
    return out;
  }
  Actions hear(Time now, const Message& message) {
    return client.receive(now, message, kServerMac);
  }
  // From nothing to a lease of 80 s, at that time.
  Actions bind(Time now) {
    const auto discover = client.discover(now).packets.at(0).message;
    const auto request = hear(now, reply(MessageType::kOffer, discover)).packets.at(0).message;
    return hear(now, reply(MessageType::kAck, request));
  }
};

MessageType type_of(const Actions& actions) { return *actions.packets.at(0).message.type(); }

}  // namespace

TEST_CASE("DISCOVER, REQUEST, and a lease") {
  Talk talk;
  const auto first = talk.client.discover(Time(0));
  const auto& discover = first.packets.at(0).message;
  CHECK(type_of(first) == MessageType::kDiscover);
  CHECK(discover.options.at(option::kClientId) == Bytes{0, 'x'});
  CHECK(discover.options.at(option::kParameterList) == Bytes{3, 1});
  CHECK_FALSE(first.packets[0].to);
  CHECK(talk.client.listens(Time(0)));
  const auto second = talk.hear(Time(0), talk.reply(MessageType::kOffer, discover));
  const auto& request = second.packets.at(0).message;
  CHECK(request.xid == discover.xid);
  CHECK(request.options.at(option::kRequestedAddress) == Bytes{10, 0, 0, 5});
  CHECK(request.options.at(option::kServerId) == Bytes{10, 0, 0, 1});
  CHECK(request.ciaddr.is_unspecified());
  const auto third = talk.hear(Time(0), talk.reply(MessageType::kAck, request));
  CHECK(third.bound);
  CHECK(third.packets.empty());
  CHECK(talk.client.state() == Client::State::kBound);
  CHECK(talk.client.deadline() == seconds(40));
  CHECK_FALSE(talk.client.listens(Time(0)));
}

TEST_CASE("without an answer it asks again, each time later") {
  Talk talk;
  talk.client.discover(Time(0));
  Time before(0);
  CHECK(talk.client.deadline() == Time(250));
  for (const int wanted : {0, 1, 4, 8, 16, 32, 62, 62}) {
    Time now = talk.client.deadline();
    if (!talk.client.is_due(now)) {  // it ends to listen
      CHECK(talk.client.tick(now).packets.empty());
      CHECK_FALSE(talk.client.listens(now));
      now = talk.client.deadline();
    }
    CHECK(now - before >= seconds(wanted - 1));
    CHECK(now - before <= seconds(wanted + 1));
    CHECK(type_of(talk.client.tick(now)) == MessageType::kDiscover);
    before = now;
  }
}

TEST_CASE("what is not an answer to it is not heard") {
  Talk talk;
  const auto discover = talk.client.discover(Time(0)).packets.at(0).message;
  auto offer = talk.reply(MessageType::kOffer, discover);
  const auto ignored = [&](const Message& message) {
    CHECK(talk.hear(Time(0), message).packets.empty());
    CHECK(talk.client.state() == Client::State::kSelecting);
  };
  Message wrong = offer;
  wrong.xid += 1;
  ignored(wrong);
  wrong = offer;
  wrong.chaddr = kServerMac;
  ignored(wrong);
  wrong = offer;
  wrong.reply = false;
  ignored(wrong);
  wrong = offer;
  wrong.options.erase(option::kServerId);
  ignored(wrong);
  for (const Bytes& server : {Bytes{0, 0, 0, 0}, Bytes{0, 1, 2, 3}, Bytes{127, 0, 0, 1},
                              Bytes{224, 0, 0, 1}, Bytes{240, 0, 0, 1}, Bytes{255, 255, 255, 255},
                              Bytes{10, 0, 0, 5}}) {  // the last is the offered address
    wrong = offer;
    wrong.options[option::kServerId] = server;
    ignored(wrong);
  }
  ignored(talk.reply(MessageType::kOffer, discover, "0.0.0.0"));
  ignored(talk.reply(MessageType::kAck, discover));  // before any request
  ignored(talk.reply(MessageType::kNak, discover));
}

TEST_CASE("the first offer counts, and only its server can grant it") {
  Talk talk;
  const auto discover = talk.client.discover(Time(0)).packets.at(0).message;
  const auto request =
      talk.hear(Time(0), talk.reply(MessageType::kOffer, discover)).packets.at(0).message;
  auto other = talk.reply(MessageType::kOffer, discover, "10.0.0.9");
  other.options[option::kServerId] = {10, 0, 0, 2};
  CHECK(talk.hear(Time(0), other).packets.empty());
  other = talk.reply(MessageType::kAck, request);
  other.options[option::kServerId] = {10, 0, 0, 2};
  CHECK_FALSE(talk.hear(Time(0), other).bound);
  CHECK_FALSE(talk.hear(Time(0), talk.reply(MessageType::kAck, request, "10.0.0.6")).bound);
  CHECK(talk.hear(Time(0), talk.reply(MessageType::kAck, request)).bound);
}

TEST_CASE("a request without answer is repeated, then given up") {
  Talk talk;
  const auto discover = talk.client.discover(Time(0)).packets.at(0).message;
  talk.hear(Time(0), talk.reply(MessageType::kOffer, discover));
  for (int i = 0; i < 2; ++i) {
    CHECK(type_of(talk.client.tick(talk.client.deadline())) == MessageType::kRequest);
  }
  const auto again = talk.client.tick(talk.client.deadline());
  CHECK(type_of(again) == MessageType::kDiscover);
  CHECK(again.packets[0].message.xid != discover.xid);
  CHECK(talk.client.problem() == "nobody answered the request for 10.0.0.5");
}

TEST_CASE("a NAK starts again at once, and later each time after") {
  Talk talk;
  auto actions = talk.client.discover(Time(0));
  Time now(0);
  for (const int wanted : {0, 1, 2, 4, 8, 16, 32, 64, 64}) {
    const auto request =
        talk.hear(now, talk.reply(MessageType::kOffer, actions.packets.at(0).message));
    actions = talk.hear(now, talk.reply(MessageType::kNak, request.packets.at(0).message));
    if (wanted > 0) {
      CHECK(actions.packets.empty());
      CHECK(talk.client.deadline() - now <= seconds(wanted + 1));
      CHECK(talk.client.deadline() - now >= seconds(wanted) - seconds(wanted > 1 ? 1 : 0));
      now = talk.client.deadline();
      actions = talk.client.tick(now);
    }
    CHECK(type_of(actions) == MessageType::kDiscover);
  }
}

TEST_CASE("at T1 the server is asked alone, at T2 everybody, at the end the address is lost") {
  Talk talk;
  talk.bind(seconds(100));
  CHECK(talk.client.deadline() == seconds(140));
  CHECK(talk.client.tick(seconds(139)).packets.empty());
  const auto renew = talk.client.tick(seconds(140));
  const auto& sent = renew.packets.at(0);
  CHECK(talk.client.state() == Client::State::kRenewing);
  CHECK(*sent.message.type() == MessageType::kRequest);
  CHECK(sent.message.ciaddr == ip("10.0.0.5"));
  CHECK_FALSE(sent.message.options.contains(option::kRequestedAddress));
  CHECK_FALSE(sent.message.options.contains(option::kServerId));
  CHECK(sent.ends.source == ip("10.0.0.5"));
  CHECK(sent.ends.destination == ip("10.0.0.1"));
  CHECK(sent.to == kServerMac);

  Time now = seconds(140);
  int renewals = 1;
  Actions actions;
  while (talk.client.state() == Client::State::kRenewing) {
    now = talk.client.deadline();
    actions = talk.client.tick(now);
    renewals += static_cast<int>(actions.packets.size());
  }
  CHECK(now == seconds(170));  // T2
  CHECK(renewals >= 3);
  CHECK(renewals <= 4);
  CHECK(talk.client.state() == Client::State::kRebinding);
  CHECK(actions.packets.at(0).ends.destination == ip("255.255.255.255"));
  CHECK_FALSE(actions.packets[0].to);
  CHECK(actions.packets[0].ends.source == ip("10.0.0.5"));
  while (actions.lost.empty()) {
    now = talk.client.deadline();
    actions = talk.client.tick(now);
  }
  CHECK(now == seconds(180));
  CHECK(actions.lost == "the lease expired");
  CHECK(type_of(actions) == MessageType::kDiscover);
  CHECK(actions.packets[0].message.options.at(option::kRequestedAddress) == Bytes{10, 0, 0, 5});
  CHECK_FALSE(talk.client.lease());
}

TEST_CASE("an answer to a renewal counts from when it was asked") {
  Talk talk;
  talk.bind(Time(0));
  const auto renew = talk.client.tick(seconds(40)).packets.at(0).message;
  CHECK(talk.hear(seconds(43), talk.reply(MessageType::kAck, renew)).bound);
  CHECK(talk.client.lease()->expire == seconds(120));
  CHECK(talk.client.deadline() == seconds(80));
}

TEST_CASE("another server answers a rebinding, but no renewal") {
  Talk talk;
  talk.bind(Time(0));
  auto ack = talk.reply(MessageType::kAck, talk.client.tick(seconds(40)).packets.at(0).message);
  ack.options[option::kServerId] = {10, 0, 0, 2};
  CHECK_FALSE(talk.hear(seconds(40), ack).bound);
  const auto rebind = talk.client.tick(seconds(70)).packets.at(0).message;
  ack = talk.reply(MessageType::kAck, rebind, "10.0.0.7");
  ack.options[option::kServerId] = {10, 0, 0, 2};
  CHECK(talk.hear(seconds(70), ack).bound);
  CHECK(talk.client.lease()->server == ip("10.0.0.2"));
  CHECK(talk.client.lease()->address.str() == "10.0.0.7/24");
}

TEST_CASE("a NAK of a renewal ends the lease at once") {
  Talk talk;
  talk.bind(Time(0));
  auto nak = talk.reply(MessageType::kNak, talk.client.tick(seconds(40)).packets.at(0).message);
  nak.options[option::kMessage] = {'n', 'o'};
  const auto actions = talk.hear(seconds(41), nak);
  CHECK(actions.lost == "server 10.0.0.1 refused the request (DHCPNAK): no");
  CHECK(type_of(actions) == MessageType::kDiscover);
  CHECK_FALSE(actions.packets[0].message.options.contains(option::kRequestedAddress));
  CHECK_FALSE(talk.client.lease());
}

TEST_CASE("a renewal that gives no lease leaves the old one") {
  Talk talk;
  talk.bind(Time(0));
  auto ack = talk.reply(MessageType::kAck, talk.client.tick(seconds(40)).packets.at(0).message);
  ack.options.erase(option::kSubnetMask);
  const auto actions = talk.hear(seconds(41), ack);
  CHECK_FALSE(actions.bound);
  CHECK(actions.lost.empty());
  CHECK(talk.client.lease()->address.str() == "10.0.0.5/24");
}

TEST_CASE("an ACK without a mask is refused, and given back") {
  Talk talk;
  const auto discover = talk.client.discover(Time(0)).packets.at(0).message;
  const auto request = talk.hear(Time(0), talk.reply(MessageType::kOffer, discover));
  auto ack = talk.reply(MessageType::kAck, request.packets.at(0).message);
  ack.options.erase(option::kSubnetMask);
  const auto actions = talk.hear(Time(0), ack);
  CHECK(actions.refused == "DHCP option Subnet Mask not found in DHCPACK");
  CHECK(type_of(actions) == MessageType::kRelease);
  CHECK_FALSE(actions.bound);
}

TEST_CASE("a lease of an earlier process goes on at the right time") {
  Talk talk;
  talk.bind(Time(0));
  const auto lease = *talk.client.lease();
  for (const auto& [now, state] : {std::pair(seconds(45), Client::State::kRenewing),
                                   std::pair(seconds(75), Client::State::kRebinding)}) {
    Talk next;
    next.client.resume(lease);
    CHECK(next.client.deadline() == seconds(40));
    next.client.tick(now);
    CHECK(next.client.state() == state);
  }
  Talk late;
  late.client.resume(lease);
  CHECK(late.client.tick(seconds(81)).lost == "the lease expired");
}

TEST_CASE("INIT-REBOOT asks for the address that is known, then for any") {
  Talk talk;
  auto actions = talk.client.reboot(Time(0), ip("10.0.0.5"));
  auto request = actions.packets.at(0).message;
  CHECK(*request.type() == MessageType::kRequest);
  CHECK(request.options.at(option::kRequestedAddress) == Bytes{10, 0, 0, 5});
  CHECK_FALSE(request.options.contains(option::kServerId));
  CHECK(request.ciaddr.is_unspecified());
  SUBCASE("granted") { CHECK(talk.hear(Time(0), talk.reply(MessageType::kAck, request)).bound); }
  SUBCASE("refused") {
    CHECK(type_of(talk.hear(Time(0), talk.reply(MessageType::kNak, request))) ==
          MessageType::kDiscover);
  }
  SUBCASE("not answered") {
    for (int i = 0; i < 2; ++i) {
      CHECK(type_of(talk.client.tick(talk.client.deadline())) == MessageType::kRequest);
    }
    CHECK(type_of(talk.client.tick(talk.client.deadline())) == MessageType::kDiscover);
  }
}

TEST_CASE("a new address is probed for, and declined where it is in use") {
  Talk talk({.client_id = {0, 'x'}, .wanted = {1}, .probe = true});
  const auto discover = talk.client.discover(Time(0)).packets.at(0).message;
  const auto request = talk.hear(Time(0), talk.reply(MessageType::kOffer, discover));
  const auto actions =
      talk.hear(Time(0), talk.reply(MessageType::kAck, request.packets.at(0).message));
  CHECK(actions.probe);
  CHECK_FALSE(actions.bound);
  CHECK(talk.client.state() == Client::State::kProbing);
  SUBCASE("free") {
    CHECK(talk.client.probed(seconds(1), true).bound);
    CHECK(talk.client.deadline() == seconds(40));
    // A renewal of the same address is none.
    const auto renew = talk.client.tick(seconds(40)).packets.at(0).message;
    CHECK(talk.hear(seconds(40), talk.reply(MessageType::kAck, renew)).bound);
  }
  SUBCASE("in use") {
    const auto declined = talk.client.probed(seconds(1), false);
    const auto& message = declined.packets.at(0).message;
    CHECK(*message.type() == MessageType::kDecline);
    CHECK(message.options.at(option::kRequestedAddress) == Bytes{10, 0, 0, 5});
    CHECK(message.options.at(option::kServerId) == Bytes{10, 0, 0, 1});
    CHECK(message.ciaddr.is_unspecified());
    CHECK_FALSE(message.options.contains(option::kParameterList));
    CHECK(talk.client.deadline() == seconds(11));
    CHECK(type_of(talk.client.tick(seconds(11))) == MessageType::kDiscover);
  }
}

TEST_CASE("a RELEASE goes to the server from the address") {
  Talk talk;
  CHECK_FALSE(talk.client.release());
  talk.bind(Time(0));
  const auto released = talk.client.release();
  REQUIRE(released);
  CHECK(*released->message.type() == MessageType::kRelease);
  CHECK(released->message.ciaddr == ip("10.0.0.5"));
  CHECK(released->ends.source == ip("10.0.0.5"));
  CHECK(released->ends.destination == ip("10.0.0.1"));
  CHECK(released->to == kServerMac);
  CHECK(released->message.options.at(option::kServerId) == Bytes{10, 0, 0, 1});
  CHECK(released->message.options.size() == 3);  // type, server, client
  CHECK(talk.client.deadline() == dhcp::kNever);
  CHECK_FALSE(talk.client.release());
}

TEST_CASE("a lease without end is never renewed") {
  Talk talk;
  const auto discover = talk.client.discover(Time(0)).packets.at(0).message;
  const auto request = talk.hear(Time(0), talk.reply(MessageType::kOffer, discover));
  CHECK(talk.hear(Time(0), talk.reply(MessageType::kAck, request.packets.at(0).message, "10.0.0.5",
                                      {255, 255, 255, 255}))
            .bound);
  CHECK(talk.client.deadline() == dhcp::kNever);
}
