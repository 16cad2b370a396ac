// In a network namespace of its own: what is asked of the kernel's traffic control is what tc(8)
// shows. Needs root; exits with 77 where it may not unshare.
#define DOCTEST_CONFIG_IMPLEMENT
#include <linux/pkt_cls.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "netlink/tc/list.h"
#include "netlink/tc/ticks.h"
#include "netlink/types/error.h"
#include "tests/netns/node.h"

using namespace netlink;
using nlohmann::json;

namespace {

struct Node : node::Fresh {
  Node() { REQUIRE(node::run("ip link add name v type veth peer name w")); }
};

json shown(const std::string& what) { return json::parse(node::output_of("tc -j " + what)); }

/// The errno of a refusal; 0 where there was none.
int refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.error();
  }
  return 0;
}

}  // namespace

TEST_CASE("an ifb is made as it was asked for") {
  const Node node;
  RouteSocket socket;
  socket.send(add(Ifb{.name = "i", .mtu = 1400, .tx_queue_length = 0}));
  const json link = json::parse(node::output_of("ip -j -d link show i"))[0];
  CHECK(link["linkinfo"]["info_kind"] == "ifb");
  CHECK(link["mtu"] == 1400);
  CHECK(!link.contains("txqlen"));
  CHECK(link["flags"].dump().find("\"UP\"") != std::string::npos);
  CHECK(refusal([&] { socket.send(add(Ifb{.name = "i"})); }) == EEXIST);
  const Link seen = socket.get("i");
  CHECK(seen.kind == "ifb");
  CHECK(seen.mtu == 1400);
  CHECK(seen.up);
  CHECK(seen.tx_queue_length == 0);
  CHECK(socket.links_of_kind("ifb").size() == 1);
}

TEST_CASE("a token bucket is what tc shows, and is changed in place") {
  const Node node;
  RouteSocket socket;
  const Link v = socket.get("v");
  const tc::Ticks ticks = tc::Ticks::read();
  tc::Tbf wanted{
      .rate = 1000000, .buffer = ticks.of(std::chrono::milliseconds(10)), .limit = 35000};
  const auto qdisc = [&] { return tc::Qdisc{tc::kRoot, tc::handle(1), wanted}; };
  socket.send(add(v, qdisc()));
  const json first = shown("qdisc show dev v")[0];
  CHECK(first["kind"] == "tbf");
  CHECK(first["handle"] == "1:");
  CHECK(first["root"] == true);
  CHECK(first["options"]["rate"] == 1000000);
  CHECK(first["options"]["burst"] == 10000);
  CHECK(refusal([&] { socket.send(add(v, qdisc())); }) == EEXIST);
  wanted.rate = 2000000;
  socket.send(replace(v, qdisc()));
  CHECK(shown("qdisc show dev v")[0]["options"]["rate"] == 2000000);
  const auto seen = tc::qdisc(socket, v, tc::kRoot);
  REQUIRE(seen);
  REQUIRE(seen->as<tc::Tbf>() != nullptr);
  CHECK(*seen->as<tc::Tbf>() == wanted);
  const auto all = tc::qdiscs(socket, v);
  REQUIRE(all.size() == 1);
  CHECK(all[0].handle == tc::handle(1));
  socket.send(remove(v, qdisc()));
  CHECK(!tc::qdisc(socket, v, tc::kRoot));
  socket.send(remove(v, qdisc()));
}

TEST_CASE("a redirect leads to another link, and is changed in place") {
  const Node node;
  RouteSocket socket;
  const Link v = socket.get("v");
  socket.send(add(Ifb{.name = "i"}));
  socket.send(add(Ifb{.name = "j"}));
  const Link i = socket.get("i"), j = socket.get("j");
  const tc::Qdisc ingress{tc::kHook, tc::kHookHandle, tc::Ingress{}};
  socket.send(add(v, ingress));
  socket.send(replace(v, ingress));
  const tc::Redirect to_i{.to_link = i.index}, to_j{.to_link = j.index};
  socket.send(add(v, to_i));
  CHECK(refusal([&] { socket.send(add(v, to_i)); }) == EEXIST);
  const auto target = [] {
    for (const json& filter : shown("filter show dev v parent ffff:")) {
      if (!filter.contains("options") || !filter["options"].contains("actions")) continue;
      const json& action = filter["options"]["actions"][0];
      return action["mirred_action"].get<std::string>() + " " +
             action["direction"].get<std::string>() + " " + action["to_dev"].get<std::string>();
    }
    return std::string("none");
  };
  CHECK(target() == "redirect egress i");
  socket.send(replace(v, to_j));
  CHECK(target() == "redirect egress j");
  const auto seen = tc::filters(socket, v, tc::kIngress);
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].redirects_all_to(j.index));
  CHECK(!seen[0].redirects_all_to(i.index));
  CHECK(seen[0].handle == tc::kFirstU32);
  CHECK(seen[0].priority == 1);
  socket.send(remove(v, tc::FilterGroup{}));
  CHECK(target() == "none");
  socket.send(remove(v, tc::FilterGroup{}));
  socket.send(remove(v, ingress));
  socket.send(remove(v, tc::FilterGroup{}));
  CHECK(tc::qdiscs(socket, v).empty());
  CHECK(tc::filters(socket, v, tc::kIngress).empty());
}

int main(int argc, char** argv) {
  return node::run_tests(argc, argv,
                         "ip link add name v type veth peer name w && tc -V >/dev/null");
}
