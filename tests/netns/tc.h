#pragma once

#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "netlink/route/socket.h"
#include "netlink/types/error.h"
#include "tests/netns/node.h"

/// What the tests on traffic control have in common.
namespace tc_test {

/// A veth pair, and an ifb to send things to.
struct Node : node::Fresh {
  Node() {
    REQUIRE(
        node::run("ip link add name v type veth peer name w && ip link add name i type ifb && "
                  "ip link set lo up && ip link set v up && ip link set w up && ip link set i up"));
  }
};

inline nlohmann::json parsed(const std::string& command) {
  return nlohmann::json::parse(node::output_of(command));
}
/// What tc(8) shows: "qdisc show dev v".
inline nlohmann::json shown(const std::string& what) { return parsed("tc -j -s " + what); }

/// Sends all requests at once.
template <class... Request>
void send(netlink::RouteSocket& socket, Request... request) {
  std::vector<netlink::RouteRequest> all;
  (all.push_back(std::move(request)), ...);
  socket.send(all);
}

/// The errno of a refusal; 0 where there was none.
inline int refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const netlink::Error& e) {
    return e.error();
  }
  return 0;
}

/// For TestFile: without the tests of kinds of qdiscs ("... (fq)") that the kernel lacks, unless it
/// has to have them.
inline std::string lacks(doctest::Context& context) {
  if (!node::run("ip link add name v type veth peer name w && ip link add i type ifb && "
                 "tc qdisc add dev v root tbf rate 1mbit burst 10k latency 1s && "
                 "tc qdisc add dev v ingress")) {
    return "tc(8), and the kernel's tbf, ingress and ifb";
  }
  for (const std::string kind : {"fq", "fq_codel"}) {
    if (std::getenv("PATCHBAY_GUEST") != nullptr ||
        node::run("tc qdisc replace dev w root " + kind + " 2>/dev/null")) {
      continue;
    }
    std::printf("SKIP: the kernel has no %s; see netns.kernel_6.1\n", kind.c_str());
    context.addFilter("test-case-exclude", ("*(" + kind + ")").c_str());
  }
  return "";
}

}  // namespace tc_test
