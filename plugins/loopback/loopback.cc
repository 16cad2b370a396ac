#include "libcni/common/undo.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/privileges.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"
#include "netlink/netns.h"
#include "netlink/route/socket.h"
#include "plugins/common/link/owned_links.h"
#include "plugins/loopback/facts.h"

namespace loopback {

namespace {

using cni::cat;
using netlink::Capability;
using netlink::NetNs;
using netlink::RouteSocket;

void set_down(RouteSocket& pod, const netlink::Link& lo) {
  pod.send(netlink::set_link(lo, {.up = false, .alias = ""}));
}

struct SetDown {
  NetNs ns;
  void operator()() const {
    RouteSocket pod(ns);
    set_down(pod, pod.get("lo"));
  }
  std::string describe() const { return "set 'lo' down again"; }
};

// The first address of each family; the kernel gives them to "lo" when it comes up.
std::vector<cni::Address> loopback_addresses(RouteSocket& pod, const netlink::Link& lo) {
  std::vector<cni::Address> out;
  for (const auto family : netlink::kFamilies) {
    const auto addresses = pod.addresses(lo, family);
    for (const auto& address : addresses) {
      if (address.cidr.ip.is_loopback()) continue;
      throw cni::Error(cni::Code::kInternal,
                       cat("loopback interface found with non-loopback address \"",
                           address.cidr.ip.str(), "\""));
    }
    if (!addresses.empty()) {
      out.push_back({.cidr = addresses.front().cidr, .gateway = {}, .interface = 0});
    }
  }
  return out;
}

constexpr cni::Key kKeys[] = {
    {.name = "prevResult",
     .description = "result of the previous plugin in the chain; returned as the result, in the "
                    "config's `cniVersion`",
     .type = cni::Type::kObject,
     .open = true}};

constinit const cni::Manual kManual{
    .purpose = "sets `lo` up in the pod's network namespace", .keys = kKeys, .facts = kFacts};

// Sets "lo" up in the pod; the alias says for which attachment. CNI_IFNAME is ignored.
cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const auto previous = request.prev_result();
  const NetNs ns = cni::enter_netns(request);
  cni::require_capabilities(request, {Capability::kSysAdmin});
  RouteSocket pod(ns);
  const netlink::Link lo = pod.get("lo");
  if (!lo.up) {
    cni::require_capabilities(request, {Capability::kNetAdmin});
    undo.add(SetDown{ns});
    const std::string owner = plugins::owner_of(request).text;
    pod.send(netlink::set_link(lo, {.up = true, .alias = owner}));
  }
  auto addresses = loopback_addresses(pod, lo);
  if (previous) return *previous;
  cni::Result result;
  result.interfaces = {{.name = "lo", .mac = lo.mac.str(), .sandbox = request.netns}};
  result.ips = std::move(addresses);
  return result;
}

// Sets "lo" down if ADD of this attachment has set it up: the path of the namespace may be another
// container's by now. Succeeds if the namespace does not exist.
void del(const cni::Request& request) {
  const auto ns = NetNs::find(request.netns);
  if (!ns) return;
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  RouteSocket pod(*ns);
  const netlink::Link lo = pod.get("lo");
  if (lo.alias.starts_with(plugins::owner_of(request).prefix())) set_down(pod, lo);
}

// \throws cni::Error where "lo" is down.
void check(const cni::Request& request) {
  cni::require_capabilities(request, {Capability::kSysAdmin});
  RouteSocket pod(cni::enter_netns(request));
  if (!pod.get("lo").up)
    throw cni::Error(cni::Code::kInternal, "loopback interface is down", request.netns);
}

// The plugin changes nothing outside the pod's namespace.
void gc(const cni::Request& /*request*/, cni::Collect& /*collect*/) {}

// \throws cni::Error where a capability is missing; every kernel has a loopback device.
void status(const cni::Request& request) {
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
}

void validate(const cni::Request& request) { request.prev_result(); }

// Sets "lo" up where it is down.
cni::Result repair(const cni::Request& request, cni::Repair& repair) {
  cni::require_capabilities(request, {Capability::kSysAdmin});
  RouteSocket pod(cni::enter_netns(request));
  repair.part([&] { check(request); },
              [&] {
                cni::require_capabilities(request, {Capability::kNetAdmin});
                pod.send(netlink::set_link(pod.get("lo"), {.up = true}));
              });
  return request.prev_result().value_or(cni::Result{});
}

}  // namespace

extern constinit const cni::Plugin kPlugin{.name = "loopback",
                                           .verbs = {add, del, check, gc, status, validate, repair},
                                           .manual = &kManual,
                                           .loading = "failed to parse network config"};

}  // namespace loopback
