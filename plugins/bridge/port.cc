#include "plugins/bridge/port.h"

#include <cerrno>
#include <chrono>

#include "libcni/common/phase.h"
#include "plugins/bridge/link.h"
#include "plugins/common/host_veth.h"
#include "plugins/common/owned_links.h"

namespace bridge {

namespace {

using cni::cat;
using netlink::Link;
using netlink::Mac;
using netlink::NetNs;
using netlink::RouteSocket;

// Stands in undo before the pair is made: an answer of the kernel that got lost must not leave one
// behind. The MAC address, chosen for this call, tells it from another pod's.
struct RemoveVeth {
  std::string name;
  Mac mac;
  void operator()() const {
    RouteSocket host;
    const auto link = host.find(name);
    if (link && link->mac == mac) host.send(netlink::remove_link(*link));
  }
  std::string describe() const { return cat("remove '", name, "'"); }
};

// False where the outer name is taken.
bool try_connect(const Context& context, const Link& bridge, const netlink::Veth& spec,
                 cni::Undo& undo) {
  undo.add(RemoveVeth{spec.end.name, spec.end.mac});
  try {
    context.host.send(netlink::add(spec));
    return true;
  } catch (const netlink::Error& e) {
    if (e.error() == EEXIST) {
      if (!context.pod.find(spec.peer.name)) return false;
      throw cni::Error(
          cni::Code::kInternal,
          cat("container veth name (\"", spec.peer.name, "\") peer provided (\"", spec.end.name,
              "\") already exists"),
          "the pod has an interface with this name: delete it, or use another CNI_IFNAME");
    }
    if (e.error() == EXFULL) {
      throw cni::Error(cni::Code::kInternal, e.what(),
                       cat("bridge '", bridge.name,
                           "' has all the ports the kernel allows (1023); use a second bridge"));
    }
    throw;
  }
}

// By its index, which the kernel tells of the other end: the pod may rename links meanwhile.
Link made_inside(RouteSocket& pod, const Link& outside, const netlink::VethEnd& wanted) {
  auto inside = pod.find(outside.peer_index);
  if (!inside || inside->name != wanted.name || inside->mac != wanted.mac) {
    throw cni::Error(cni::Code::kInternal,
                     cat("create veth pair '", outside.name, "' and '", wanted.name,
                         "': the pod changed the container interface meanwhile"));
  }
  return *std::move(inside);
}

// What is known on the node, the port and its rules, can be removed without it.
std::optional<NetNs> visible(const std::string& netns) try {
  return NetNs::find(netns);
} catch (const netlink::Error& e) {
  if (e.error() != EACCES) throw;
  return std::nullopt;
}

}  // namespace

Port connect_pod(const Context& context, const Link& bridge, cni::Undo& undo) {
  const cni::Phase phase("veth");
  const Conf& conf = context.conf;
  netlink::Veth spec{
      .end = {.name = plugins::host_veth_name(context.request),
              .mac = Mac::random(),
              .master = bridge.index},
      .peer = {.name = context.request.ifname, .mac = conf.mac ? *conf.mac : Mac::random()},
      .peer_ns = context.pod_ns,
      .mtu = conf.mtu};
  for (unsigned attempt = 1; !try_connect(context, bridge, spec, undo); ++attempt) {
    if (attempt == plugins::kHostVethNames) {
      throw cni::Error(cni::Code::kTryAgainLater, "failed to find a unique veth name");
    }
    spec.end.name = plugins::host_veth_name(context.request, attempt);
  }
  const Link outside = context.host.get(spec.end.name);
  Port port{outside, made_inside(context.pod, outside, spec.peer)};
  ignore_router_advertisements(port.outside);
  return port;
}

void open_port(const Context& context, const Port& port, const Link& bridge) {
  auto requests = port_vlans(port.outside, bridge, context.conf, true);
  if (context.conf.hairpin_mode || context.conf.port_isolation) {  // a new port has neither
    requests.push_back(netlink::set_port(port.outside, {.hairpin = context.conf.hairpin_mode,
                                                        .isolated = context.conf.port_isolation}));
  }
  requests.push_back(netlink::without_link_local(port.outside));
  requests.push_back(netlink::set_link(
      port.outside, {.up = true, .alias = plugins::owner_of(context.request).text}));
  context.host.send(requests);
}

void restore_port(const Context& context, const Port& port, const Link& bridge) {
  const Conf& conf = context.conf;
  const Link& outside = port.outside;
  ignore_router_advertisements(outside);
  std::vector<netlink::Request> requests;
  if (outside.master != bridge.index) {
    requests.push_back(netlink::set_link(outside, {.master = bridge.index}));
  }
  // The flags before the VLANs: an isolated port is not to see its neighbours first.
  requests.push_back(
      netlink::set_port(outside, {.hairpin = conf.hairpin_mode, .isolated = conf.port_isolation}));
  for (auto& request : port_vlans(outside, bridge, conf, true)) {
    requests.push_back(std::move(request));
  }
  requests.push_back(
      netlink::set_link(outside, {.up = true, .alias = plugins::owner_of(context.request).text}));
  context.host.send(requests);
  if (!conf.disable_container_interface) wait_for_port(context.host, outside);
}

void wait_for_port(RouteSocket& host, const Link& outside) {
  const cni::Phase phase("wait");
  constexpr std::chrono::milliseconds kLimit{2500};
  auto state = netlink::OperState::kUnknown;
  const auto is_up = [&] {
    const auto link = host.find(outside.index);
    if (!link) throw netlink::Error(cat("look up link '", outside.name, "'"), ENODEV);
    state = link->oper_state;
    return state == netlink::OperState::kUp;
  };
  if (!host.wait_until(is_up, kLimit)) {
    throw cni::Error(cni::Code::kInternal, cat("bridge port in error state: ", netlink::str(state)),
                     cat("link '", outside.name, "'"));
  }
}

void remove_port(const cni::Request& request) {
  const cni::Phase phase("veth");
  RouteSocket host;
  for (const Link& link : plugins::removable_host_veths(host, request)) {
    host.send(netlink::remove_link(link));
  }
}

plugins::Masquerade masquerade_of(const cni::Request& request, const cni::Result& result) {
  plugins::Masquerade out{request.network, request.container_id, request.ifname, {}, true};
  for (const auto& address : result.ips) out.addresses.push_back(address.cidr);
  return out;
}

plugins::Masquerade masquerade_to_remove(const cni::Request& request) {
  const auto result = plugins::readable_prev_result(request);
  auto out = masquerade_of(request, result.value_or(cni::Result{}));
  const auto ns = out.addresses.empty() ? visible(request.netns) : std::nullopt;
  if (!ns) return out;
  RouteSocket host;
  RouteSocket pod(*ns);
  const auto inside = pod.find(request.ifname);
  if (!inside || !plugins::host_veth_of(host, request, *ns, *inside)) return out;
  for (const auto& address : pod.addresses(*inside)) {
    if (!address.cidr.ip.is_link_local()) out.addresses.push_back(address.cidr);
  }
  out.from_result = false;
  return out;
}

}  // namespace bridge
