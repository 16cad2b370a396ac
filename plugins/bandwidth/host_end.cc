#include "plugins/bandwidth/host_end.h"

#include "libcni/common/error.h"

namespace bandwidth {

namespace {

using cni::cat;
using netlink::Link;

cni::Error refusal(const std::string& what, const std::string& details = {}) {
  return {cni::Code::kInternal, what, details};
}

}  // namespace

Link host_end(netlink::RouteSocket& host, const cni::Request& request, const Inside& inside,
              const cni::Result& result) {
  if (result.interfaces.empty()) throw refusal("no interfaces provided");
  if (inside.link.kind != "veth") {
    throw refusal(cat("container interface ", inside.link.name, " has no veth peer: interface \"",
                      inside.link.name, "\" was not a veth interface"),
                  "without a host veth use \"egressMode\" \"pod\" or \"edt\", and no ingressRate");
  }
  auto outside = plugins::host_veth_of(host, request, inside.ns, inside.link);
  if (!outside) {
    throw refusal(cat("veth peer with index ", inside.link.peer_index, " is not in host ns"));
  }
  if (!plugins::names_host_link(result, outside->name)) {
    throw refusal("no veth peer of container interface found in host ns",
                  cat("prevResult does not name '", outside->name, "'"));
  }
  return *std::move(outside);
}

std::optional<Link> find_host_end(netlink::RouteSocket& host, const cni::Request& request,
                                  const Inside& inside, const cni::Result& result) {
  auto outside = plugins::host_veth_of(host, request, inside.ns, inside.link);
  if (outside && !plugins::names_host_link(result, outside->name)) outside.reset();
  return outside;
}

}  // namespace bandwidth
