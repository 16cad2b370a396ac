#include "plugins/bridge/port.h"

#include <cerrno>

#include "plugins/bridge/link.h"
#include "plugins/common/link/owned_links.h"

namespace bridge {

namespace {

using cni::cat;
using netlink::Link;
using netlink::RouteSocket;

}  // namespace

Port connect_pod(const Context& context, const Link& bridge, cni::Undo& undo) {
  try {
    return plugins::create_veth_pair(
        context.sides, {.master = bridge.index, .mac = context.conf.mac, .mtu = context.conf.mtu},
        undo);
  } catch (const netlink::Error& e) {
    if (e.error() != EXFULL) throw;
    throw cni::error_of(e,
                        cat("bridge '", bridge.name,
                            "' has all the ports the kernel allows (1023); use a second bridge"));
  }
}

void open_port(const Context& context, const Port& port, const Link& bridge) {
  auto requests = port_vlans(port.outside, bridge, context.conf, true);
  if (context.conf.hairpin_mode || context.conf.port_isolation) {  // a new port has neither
    requests.push_back(netlink::set_port(port.outside, {.hairpin = context.conf.hairpin_mode,
                                                        .isolated = context.conf.port_isolation}));
  }
  requests.push_back(netlink::without_link_local(port.outside));
  requests.push_back(netlink::set_link(
      port.outside, {.up = true, .alias = plugins::owner_of(context.sides.request).text}));
  context.sides.host().send(requests);
}

void restore_port(const Context& context, const Port& port, const Link& bridge) {
  const Conf& conf = context.conf;
  const Link& outside = port.outside;
  plugins::ignore_router_advertisements(outside);
  std::vector<netlink::RouteRequest> requests;
  if (outside.master != bridge.index) {
    requests.push_back(netlink::set_link(outside, {.master = bridge.index}));
  }
  // The flags before the VLANs: an isolated port is not to see its neighbours first.
  requests.push_back(
      netlink::set_port(outside, {.hairpin = conf.hairpin_mode, .isolated = conf.port_isolation}));
  for (auto& request : port_vlans(outside, bridge, conf, true)) {
    requests.push_back(std::move(request));
  }
  requests.push_back(netlink::set_link(
      outside, {.up = true, .alias = plugins::owner_of(context.sides.request).text}));
  context.sides.host().send(requests);
  if (!conf.disable_container_interface) wait_for_port(context.sides.host(), outside);
}

void wait_for_port(RouteSocket& host, const Link& outside) {
  const auto state = plugins::wait_until_up(host, outside);
  if (state == netlink::OperState::kUp) return;
  throw cni::Error(cni::Code::kInternal, cat("bridge port in error state: ", netlink::str(state)),
                   cat("link '", outside.name, "'"));
}

}  // namespace bridge
