#include "cnitool/probe/ways_out.h"

#include <algorithm>

#include "cnitool/output.h"
#include "netlink/route/socket.h"

namespace tool::probe {

namespace {

using cni::cat;

// The host veths and bridges of pods have addresses, too.
bool is_of_pods(const netlink::LinkAddress& one, const std::vector<Subject>& subjects) {
  return std::ranges::any_of(subjects, [&](const Subject& pod) {
    return std::ranges::any_of(
        pod.result.ips, [&](const cni::Address& each) { return each.gateway == one.cidr.ip; });
  });
}

bool leads_out(const Subject& one) {
  return one.is_routed && std::ranges::any_of(one.result.routes, [](const cni::Route& route) {
           return route.dst.is_default() && route.dst.ip.is_v4();
         });
}

}  // namespace

doctor::Findings lost_ways_out(const std::vector<Subject>& subjects, const std::vector<bool>& asked,
                               const NodeFacts& node) {
  doctor::Names pods;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    if (asked[i] && leads_out(subjects[i])) pods.push_back(subjects[i].name);
  }
  doctor::Findings out;
  if (node.v4 || pods.empty()) return out;
  netlink::RouteSocket socket;
  for (const netlink::LinkAddress& one : socket.addresses()) {
    const auto link = one.cidr.ip.is_v4() ? socket.find(one.link) : std::nullopt;
    const bool works = link && link->up && link->oper_state != netlink::OperState::kDown &&
                       link->oper_state != netlink::OperState::kLowerLayerDown;
    if (!link || works || link->loopback || is_of_pods(one, subjects)) continue;
    out.push_back(
        {.level = doctor::Level::kError,
         .what = cat("the node has no default route, and '", printable(link->name), "', which has ",
                     one.cidr.ip.str(), ", is ", link->up ? "without a carrier" : "down"),
         .why = "pods reach no host beyond the node",
         .remedy = cat("ip link set ", doctor::quoted(link->name), " up"),
         .lines = pods});
  }
  return out;
}

}  // namespace tool::probe
