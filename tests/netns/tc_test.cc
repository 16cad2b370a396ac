// In a network namespace of its own: what is asked of the kernel's traffic control is what tc(8)
// shows. Needs root; exits with 77 where it may not unshare.
#include "tests/netns/tc.h"

#include <algorithm>
#include <cerrno>

#include "netlink/tc/list.h"
#include "netlink/tc/ticks.h"

using namespace netlink;
using namespace std::chrono_literals;
using nlohmann::json;
using tc_test::Node;
using tc_test::parsed;
using tc_test::refusal;
using tc_test::send;
using tc_test::shown;

namespace {

const tc::Tbf kBucket{.rate = 1000000, .buffer = 156250 /* 10 ms */, .limit = 35000};

tc::Qdisc root(const tc::Kind& kind, tc::Handle handle = tc::handle(1)) {
  return {tc::kRoot, handle, kind};
}

/// All qdiscs of v that somebody made, as "tbf 1: root", sorted.
std::vector<std::string> on_v() {
  std::vector<std::string> out;
  for (const json& q : shown("qdisc show dev v")) {
    if (q["handle"] == "0:") continue;
    out.push_back(q["kind"].get<std::string>() + " " + q["handle"].get<std::string>() + " " +
                  (q.contains("parent") ? q["parent"].get<std::string>() : "root"));
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

TEST_CASE("an ifb is made as it was asked for, with its alias at once") {
  const Node node;
  RouteSocket socket;
  send(socket,
       add(NewLink{.kind = "ifb", .name = "new", .mtu = 1400, .tx_queue_length = 0, .up = true}),
       set_link(Link{.name = "new"}, {.alias = "whose"}));
  const json link = parsed("ip -j -d link show new")[0];
  CHECK(link["linkinfo"]["info_kind"] == "ifb");
  CHECK(link["mtu"] == 1400);
  CHECK(link["ifalias"] == "whose");
  CHECK_FALSE(link.contains("txqlen"));
  CHECK(link["flags"].dump().find("\"UP\"") != std::string::npos);
  CHECK(refusal([&] { socket.send(add(NewLink{.kind = "ifb", .name = "new"})); }) == EEXIST);
  const Link seen = socket.get("new");
  CHECK(seen.kind == "ifb");
  CHECK(seen.mtu == 1400);
  CHECK(seen.up);
  CHECK(seen.tx_queue_length == 0);
  socket.send(add(NewLink{.kind = "ifb", .name = "idle", .tx_queue_length = 1000}));
  CHECK(parsed("ip -j link show idle")[0]["txqlen"] == 1000);
  CHECK(socket.get("idle").tx_queue_length == 1000);
  CHECK_FALSE(socket.get("idle").up);
}

TEST_CASE("ticks are what tc takes them for") {
  const Node node;
  REQUIRE(node::run("tc qdisc add dev v root handle 1: tbf rate 8mbit burst 10000 limit 35000"));
  RouteSocket socket;
  const auto seen = tc::qdisc(socket, socket.get("v"), tc::kRoot);
  REQUIRE(seen);
  REQUIRE(seen->as<tc::Tbf>() != nullptr);
  CHECK(*seen->as<tc::Tbf>() == tc::Tbf{1000000, tc::Ticks{}.of(10ms), 35000});
}

TEST_CASE("a token bucket is what tc shows, and is changed in place") {
  const Node node;
  RouteSocket socket;
  const Link v = socket.get("v");
  tc::Tbf wanted = kBucket;
  socket.send(add(v, root(wanted)));
  const json first = shown("qdisc show dev v")[0];
  CHECK(on_v() == std::vector<std::string>{"tbf 1: root"});
  CHECK(first["options"]["rate"] == 1000000);
  CHECK(first["options"]["burst"] == 10000);
  CHECK(first["options"]["lat"] == 25000);
  CHECK(refusal([&] { socket.send(add(v, root(wanted))); }) == EEXIST);
  // The same one with the packets that it counted, not a new one.
  REQUIRE(
      node::run("ping -c1 -W1 -I v 192.0.2.1 >/dev/null 2>&1; ip addr add 10.1.0.1/24 dev v && "
                "ip neigh add 10.1.0.2 lladdr 02:00:00:00:00:02 dev v && "
                "! ping -c1 -W0.1 10.1.0.2 >/dev/null"));
  const auto packets = [] { return shown("qdisc show dev v")[0]["packets"].get<int>(); };
  const int before = packets();
  CHECK(before > 0);
  wanted.rate = 2000000;
  socket.send(replace(v, root(wanted)));
  CHECK(shown("qdisc show dev v")[0]["options"]["rate"] == 2000000);
  CHECK(packets() >= before);
  const auto seen = tc::qdisc(socket, v, tc::kRoot);
  REQUIRE(seen);
  CHECK(seen->kind == "tbf");
  CHECK(seen->handle == tc::handle(1));
  CHECK(seen->parent == tc::kRoot);
  CHECK(seen->link == v.index);
  REQUIRE(seen->as<tc::Tbf>() != nullptr);
  CHECK(*seen->as<tc::Tbf>() == wanted);
  CHECK(seen->as<tc::Htb>() == nullptr);
}

TEST_CASE("rates of 32 bits and more arrive whole") {
  const Node node;
  RouteSocket socket;
  const Link v = socket.get("v");
  for (const std::uint64_t rate :
       {0xFFFFFFFEULL, 0xFFFFFFFFULL, 0x100000000ULL, 5000000000ULL, 0x100000000000ULL}) {
    CAPTURE(rate);
    socket.send(replace(v, root(tc::Tbf{rate, 1000000, 100000})));
    CHECK(shown("qdisc show dev v")[0]["options"]["rate"] == rate);
    const auto seen = tc::qdisc(socket, v, tc::kRoot);
    REQUIRE(seen);
    CHECK(seen->as<tc::Tbf>()->rate == rate);
  }
}

TEST_CASE("packets larger than asked for are cut up before they wait") {
  const Node node;
  RouteSocket socket;
  const Link v = socket.get("v");
  // 64 KiB of datagrams in one packet, through a bucket that holds them.
  REQUIRE(
      node::run("ip addr add 10.1.0.1/24 dev v && "
                "ip neigh add 10.1.0.2 lladdr 02:00:00:00:00:02 dev v"));
  const auto received = [] {
    return parsed("ip -s -j link show w")[0]["stats64"]["rx"]["packets"].get<int>();
  };
  constexpr const char* kSend =
      "python3 -c 'import socket as s; o = s.socket(s.AF_INET, s.SOCK_DGRAM); "
      "o.setsockopt(17, 103, 1400); "  // UDP_SEGMENT, linux/udp.h
      "o.sendto(bytes(40 * 1400), (\"10.1.0.2\", 9))'";
  tc::Tbf wanted{.rate = 1000000, .buffer = 1562500 /* 100 ms */, .limit = 200000};
  for (const std::uint32_t largest : {1514U, 30000U, 60000U, 0U}) {
    CAPTURE(largest);
    wanted.largest = largest;
    socket.send(replace(v, root(wanted)));
    CHECK(*tc::qdisc(socket, v, tc::kRoot)->as<tc::Tbf>() == wanted);
    const bool has_peak =
        node::output_of("tc qdisc show dev v").find("peakrate") != std::string::npos;
    CHECK(has_peak == (largest != 0));
    const int before = received();
    REQUIRE(node::run(kSend));
    const bool cut = received() - before >= 40;
    CHECK(cut == (largest == 1514 || largest == 30000));
  }
}

TEST_CASE("a bfifo below a token bucket is what waits there") {
  const Node node;
  RouteSocket socket;
  const Link v = socket.get("v");
  send(socket, add(v, root(kBucket)),
       add(v, tc::Qdisc{tc::handle(1, 1), tc::handle(2), tc::Fifo{12345}}));
  CHECK(on_v() == std::vector<std::string>{"bfifo 2: 1:1", "tbf 1: root"});
  const auto child = tc::qdisc(socket, v, tc::handle(1, 1));
  REQUIRE(child);
  REQUIRE(child->as<tc::Fifo>() != nullptr);
  CHECK(child->as<tc::Fifo>()->limit == 12345);
}

TEST_CASE("only what somebody made is there to be seen") {
  const Node node;
  RouteSocket socket;
  for (const char* const name : {"v", "i", "lo"}) {
    const Link link = socket.get(name);
    CHECK_FALSE(tc::qdisc(socket, link, tc::kRoot));
    CHECK_FALSE(tc::qdisc(socket, link, tc::kHook));
    CHECK(tc::htb_classes(socket, link).empty());
    CHECK(tc::filters(socket, link, tc::kIngress).empty());
  }
  REQUIRE(node::run("ip link add name never type veth peer name up"));
  CHECK_FALSE(tc::qdisc(socket, socket.get("never"), tc::kRoot));
  REQUIRE(node::run("tc qdisc add dev w root tbf rate 1mbit burst 10k latency 1s"));
  CHECK_FALSE(tc::qdisc(socket, socket.get("v"), tc::kRoot));
  CHECK(tc::qdisc(socket, socket.get("w"), tc::kRoot));
  CHECK(refusal([&] { tc::qdisc(socket, Link{.index = 4711, .name = "gone"}, tc::kRoot); }) ==
        ENODEV);
}

TEST_CASE("a kind that is not made here is seen by its name") {
  const Node node;
  REQUIRE(node::run("tc qdisc add dev v root handle 5: pfifo"));
  RouteSocket socket;
  const auto seen = tc::qdisc(socket, socket.get("v"), tc::kRoot);
  REQUIRE(seen);
  CHECK(seen->kind == "pfifo");
  CHECK(seen->handle == tc::handle(5));
  CHECK_FALSE(seen->options);
}

TEST_CASE("what is replaced is of the same kind or has another handle") {
  const Node node;
  RouteSocket socket;
  const Link v = socket.get("v");
  REQUIRE(node::run("tc qdisc add dev v root handle 7: pfifo"));
  CHECK(refusal([&] { socket.send(add(v, root(kBucket))); }) == EEXIST);
  socket.send(replace(v, root(kBucket)));
  CHECK(on_v() == std::vector<std::string>{"tbf 1: root"});
  CHECK(refusal([&] { socket.send(replace(v, root(tc::Htb{}))); }) == EINVAL);
  CHECK(on_v() == std::vector<std::string>{"tbf 1: root"});
}

TEST_CASE("only the very one is removed, and its absence is no error") {
  const Node node;
  RouteSocket socket;
  const Link v = socket.get("v");
  const tc::Qdisc ingress{tc::kHook, tc::kHookHandle, tc::Ingress{}};
  const tc::Qdisc clsact{tc::kHook, tc::kHookHandle, tc::Clsact{}};
  send(socket, remove(v, root(kBucket)), remove(v, ingress), remove(v, clsact));
  send(socket, add(v, root(kBucket)), add(v, ingress));
  const std::vector<std::string> both{"ingress ffff: ffff:fff1", "tbf 1: root"};
  CHECK(on_v() == both);
  send(socket, remove(v, root(tc::Htb{})), remove(v, root(kBucket, tc::handle(2))),
       remove(v, clsact));
  CHECK(on_v() == both);
  send(socket, remove(v, root(tc::Tbf{})), remove(v, ingress));
  CHECK(on_v().empty());
  REQUIRE(node::run("ip link del v"));
  send(socket, remove(v, root(kBucket)), remove(v, ingress), remove(v, tc::FilterGroup{}),
       remove(v, tc::HtbClass{.parent = tc::kRoot, .id = tc::handle(1, 1)}));
}

TEST_CASE("a link has one place for filters, and replacing it keeps them") {
  const Node node;
  RouteSocket socket;
  const Link v = socket.get("v");
  const tc::Qdisc ingress{tc::kHook, tc::kHookHandle, tc::Ingress{}};
  const tc::Qdisc clsact{tc::kHook, tc::kHookHandle, tc::Clsact{}};
  for (const auto& [there, other] : {std::pair(ingress, clsact), std::pair(clsact, ingress)}) {
    send(socket, add(v, there), add(v, tc::Redirect{.to_link = socket.get("i").index}));
    CHECK(refusal([&, &again = there] { socket.send(add(v, again)); }) == EEXIST);
    CHECK(refusal([&, &wrong = other] { socket.send(add(v, wrong)); }) == EEXIST);
    CHECK(refusal([&, &wrong = other] { socket.send(replace(v, wrong)); }) == EINVAL);
    socket.send(replace(v, there));
    CHECK(tc::filters(socket, v, tc::kIngress).size() == 1);
    const auto seen = tc::qdisc(socket, v, tc::kHook);
    REQUIRE(seen);
    CHECK(seen->options == there.kind);
    CHECK(seen->kind == tc::name(there.kind));
    socket.send(remove(v, there));
  }
}

TEST_CASE("classes of an HTB are what tc shows, and are changed in place") {
  const Node node;
  RouteSocket socket;
  const Link v = socket.get("v");
  tc::HtbClass shaped{.parent = tc::kRoot,
                      .id = tc::handle(1, 0x30),
                      .rate = 1000000,
                      .ceil = 2000000,
                      .buffer = 156250,
                      .cbuffer = 156250};
  const tc::HtbClass open{tc::kRoot, tc::handle(1, 1), 100000000000, 100000000000, 156250, 156250};
  send(socket, add(v, root(tc::Htb{.default_minor = 0x30})), replace(v, shaped), replace(v, open));
  const json qdisc = shown("qdisc show dev v")[0];
  CHECK(qdisc["kind"] == "htb");
  CHECK(qdisc["options"]["default"] == "0x30");
  CHECK(qdisc["options"]["r2q"] == 10);
  const std::string classes = node::output_of("tc class show dev v");  // knows no JSON
  CHECK(classes.find(
            "class htb 1:30 root prio 0 rate 8Mbit ceil 16Mbit burst 10000b cburst 20000b") !=
        std::string::npos);
  CHECK(classes.find("class htb 1:1 root prio 0 rate 800Gbit ceil 800Gbit ") != std::string::npos);
  shaped.rate = 1500000;
  socket.send(replace(v, shaped));
  const auto seen = tc::htb_classes(socket, v);
  REQUIRE(seen.size() == 2);
  CHECK(std::count(seen.begin(), seen.end(), shaped) == 1);
  CHECK(std::count(seen.begin(), seen.end(), open) == 1);
  const auto state = tc::qdisc(socket, v, tc::kRoot);
  REQUIRE(state);
  REQUIRE(state->as<tc::Htb>() != nullptr);
  CHECK(state->as<tc::Htb>()->default_minor == 0x30);
  // The kernel cannot change an HTB itself.
  CHECK(refusal([&] { socket.send(replace(v, root(tc::Htb{1}))); }) == EINVAL);
  send(socket, remove(v, open), remove(v, open));
  CHECK(tc::htb_classes(socket, v).size() == 1);
  socket.send(remove(v, root(tc::Htb{})));
  CHECK(on_v().empty());
}

TEST_CASE("a fair queue below a token bucket is what tc shows (fq_codel)") {
  const Node node;
  RouteSocket socket;
  const Link v = socket.get("v");
  const auto below = [](const tc::FqCodel& queue) {
    return tc::Qdisc{tc::handle(1, 1), tc::handle(2), queue};
  };
  const tc::FqCodel wanted{.target = 7ms,
                           .interval = 110ms,
                           .limit = 500,
                           .flows = 256,
                           .quantum = 1600,
                           .memory = 4000000,
                           .ecn = false};
  send(socket, add(v, root(kBucket)), add(v, below(wanted)));
  CHECK(on_v() == std::vector<std::string>{"fq_codel 2: 1:1", "tbf 1: root"});
  const auto seen = tc::qdisc(socket, v, tc::handle(1, 1));
  REQUIRE(seen);
  REQUIRE(seen->as<tc::FqCodel>() != nullptr);
  CHECK(seen->as<tc::FqCodel>()->limit == 500);
  CHECK(seen->as<tc::FqCodel>()->flows == 256);
  CHECK(seen->as<tc::FqCodel>()->quantum == 1600);
  CHECK(seen->as<tc::FqCodel>()->memory == 4000000);
  CHECK(seen->as<tc::FqCodel>()->ecn == false);
  for (const json& q : shown("qdisc show dev v")) {
    if (q["kind"] != "fq_codel") continue;
    CHECK(q["options"]["limit"] == 500);
    CHECK(q["options"]["flows"] == 256);
    CHECK(q["options"]["quantum"] == 1600);
    CHECK(std::abs(q["options"]["target"].get<int>() - 7000) <= 1);  // the kernel rounds
    CHECK(std::abs(q["options"]["interval"].get<int>() - 110000) <= 1);
    CHECK_FALSE(q["options"].contains("ecn"));
  }
  // The bucket is changed and keeps its queue; the queue too, except for the number of its flows.
  tc::Tbf wider = kBucket;
  wider.rate = 2000000;
  send(socket, replace(v, root(wider)), replace(v, below({.limit = 600})));
  const auto again = tc::qdisc(socket, v, tc::handle(1, 1));
  REQUIRE(again);
  CHECK(again->as<tc::FqCodel>()->limit == 600);
  CHECK(again->as<tc::FqCodel>()->flows == 256);
  CHECK(refusal([&] { socket.send(replace(v, below({.flows = 128}))); }) == EINVAL);
  socket.send(remove(v, below({})));
  CHECK(on_v() == std::vector<std::string>{"tbf 1: root"});
}

TEST_CASE("departure times are kept by a root qdisc with a horizon (fq)") {
  const Node node;
  RouteSocket socket;
  const Link v = socket.get("v");
  const tc::Fq wanted{
      .limit = 2000, .flow_limit = 300, .horizon = 2s, .horizon_drop = true, .pacing = false};
  socket.send(add(v, root(wanted)));
  const json seen = shown("qdisc show dev v")[0];
  CHECK(seen["kind"] == "fq");
  CHECK(seen["options"]["limit"] == 2000);
  CHECK(seen["options"]["flow_limit"] == 300);
  CHECK(seen["options"]["horizon"] == 2000000);
  CHECK(seen["options"].contains("horizon_drop"));
  CHECK(node::output_of("tc qdisc show dev v").find(" nopacing ") != std::string::npos);
  socket.send(replace(v, root(tc::Fq{.horizon = 1s, .horizon_drop = false})));
  const auto state = tc::qdisc(socket, v, tc::kRoot);
  REQUIRE(state);
  REQUIRE(state->as<tc::Fq>() != nullptr);
  CHECK(*state->as<tc::Fq>() == tc::Fq{2000, 300, 1s, false, false});
  socket.send(remove(v, root(tc::Fq{})));
  CHECK(on_v().empty());
}

static const node::TestFile kTests(__FILE__, tc_test::lacks);
