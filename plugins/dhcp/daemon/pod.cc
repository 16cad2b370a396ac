#include "plugins/dhcp/daemon/pod.h"

#include <algorithm>
#include <cerrno>

#include "libcni/common/undo.h"
#include "netlink/packet_socket.h"
#include "plugins/common/link/interface.h"
#include "plugins/dhcp/daemon/close_aside.h"
#include "plugins/dhcp/protocol/packet.h"

namespace dhcp {

namespace {

using cni::cat;
using netlink::LinkRoute;
using netlink::RouteCopy;

constexpr std::uint8_t kByKernel = 2;  // RTPROT_KERNEL
constexpr std::uint32_t kMain = 254;

std::vector<LinkRoute> routes_of(const State& state) {
  const cni::Result result = result_of(state);
  std::vector<LinkRoute> out;
  for (const cni::Route& route : result.routes) {
    out.push_back(plugins::link_route(route, result.ips));
  }
  return out;
}

bool is_among(const LinkRoute& seen, const std::vector<LinkRoute>& routes) {
  return std::ranges::any_of(routes, [&seen](const LinkRoute& one) {
    return one.dst.network() == seen.dst && one.gateway == seen.gateway &&
           one.table == seen.table && one.priority == seen.priority;
  });
}

// Routes of the interface that the kernel did not add by itself: it removes them with the last
// address (fib_disable_ip() in net/ipv4/fib_frontend.c).
std::vector<RouteCopy> routes_on(OpenInterface& pod) {
  std::vector<RouteCopy> out;
  for (RouteCopy& copy : pod.socket.route_copies(netlink::Family::kIpv4)) {
    if (copy.route.link == pod.link.index && copy.route.protocol != kByKernel) {
      out.push_back(std::move(copy));
    }
  }
  return out;
}

void try_send(OpenInterface& pod, netlink::RouteRequest request) {
  request.tolerated.push_back(EEXIST);
  request.tolerated.push_back(ESRCH);
  if (const auto error = pod.socket.attempt(std::move(request))) {
    cni::note(cat(error->what(), "; it is passed over"));
  }
}

void try_remove(OpenInterface& pod, const RouteCopy& copy) {
  for (netlink::RouteRequest& one : netlink::remove(copy)) try_send(pod, std::move(one));
}

// Restores routes of others: another address of the pod may need them, or a person has added them.
void restore(OpenInterface& pod, const RouteCopy& copy, const State& before, const State& after) {
  const auto& old = before.lease->gateway;
  const bool by_old = old && copy.route.gateway == old && copy.route.table == kMain;
  if (by_old && after.lease->gateway != old) {
    try_remove(pod, copy);
    if (!after.lease->gateway) return;
    LinkRoute moved = copy.route;
    moved.gateway = after.lease->gateway;
    moved.source.reset();
    return try_send(pod, netlink::add(pod.link, moved));
  }
  try_send(pod, netlink::add(copy, copy.route.table));
}

std::optional<netlink::LinkAddress> find_address(OpenInterface& pod, const netlink::Cidr& address) {
  auto present = pod.socket.addresses(pod.link, netlink::Family::kIpv4);
  const auto found =
      std::ranges::find_if(present, [&](const auto& one) { return one.cidr == address; });
  if (found == present.end()) return std::nullopt;
  return std::move(*found);
}

bool has_address(OpenInterface& pod, const netlink::Cidr& address) {
  return find_address(pod, address).has_value();
}

// Whole seconds until the end of the lease. The daemon itself removes the address in time; the
// kernel is for when there is no daemon, and never first: it rounds by up to 20 ms
// (check_lifetime() in net/ipv4/devinet.c).
std::optional<netlink::Lifetime> lifetime_of(const Lease& lease, Time now) {
  constexpr Time kMargin = std::chrono::milliseconds(100);
  constexpr std::int64_t kMaxLength = UINT32_MAX - 1;
  if (lease.expire == kNever) return std::nullopt;
  const auto left = std::chrono::ceil<std::chrono::seconds>(lease.expire - now + kMargin).count();
  const auto length = static_cast<std::uint32_t>(std::clamp<std::int64_t>(left, 1, kMaxLength));
  return netlink::Lifetime{.preferred = length, .valid = length};
}

void change_address(OpenInterface& pod, const State& before, const State& after) {
  if (before.lease && has_address(pod, before.lease->address)) {
    auto request = netlink::remove(pod.link, before.lease->address);
    request.tolerated.push_back(EADDRNOTAVAIL);
    pod.socket.send(std::move(request));
  }
  if (after.lease && !has_address(pod, after.lease->address)) {
    pod.socket.send(netlink::add(pod.link, netlink::NewAddress{.cidr = after.lease->address}));
  }
}

}  // namespace

std::optional<OpenInterface> find_pod(const State& state) {
  auto ns = netlink::NetNs::find(state.owner.netns);
  if (!ns) return std::nullopt;
  netlink::RouteSocket socket(*ns);
  const std::uint64_t cookie = socket.cookie();
  if (state.owner.cookie != 0 && cookie != state.owner.cookie) return std::nullopt;
  auto link = socket.find(state.link);
  if (!link) return std::nullopt;
  return OpenInterface{*std::move(ns), std::move(socket), *std::move(link)};
}

void set_mtu(OpenInterface& pod, const Lease& lease) {
  if (lease.mtu == 0 || lease.mtu >= pod.link.mtu) return;
  pod.socket.send(netlink::set_link(pod.link, {.mtu = lease.mtu}));
}

bool set_lifetime(OpenInterface& pod, const Lease& lease, Time now) {
  const auto address = find_address(pod, lease.address);
  if (!address) return false;
  const auto lifetime = lifetime_of(lease, now);
  if (lifetime || !address->permanent) {
    pod.socket.send(netlink::set_lifetime(pod.link, *address, lifetime));
  }
  return true;
}

void configure(OpenInterface& pod, const State& before, const State& after) {
  const auto old = routes_of(before);
  const auto wanted = routes_of(after);
  const auto present = routes_on(pod);
  for (const RouteCopy& copy : present) {
    if (is_among(copy.route, old) && !is_among(copy.route, wanted)) {
      try_remove(pod, copy);
    }
  }
  if (!before.lease || !after.lease || before.lease->address != after.lease->address) {
    change_address(pod, before, after);
  }
  if (!after.lease) return;
  set_mtu(pod, *after.lease);
  for (const LinkRoute& route : wanted) try_send(pod, netlink::add(pod.link, route));
  if (!before.lease) return;
  for (const RouteCopy& copy : present) {
    if (!is_among(copy.route, old)) restore(pod, copy, before, after);
  }
}

static void try_send_over(OpenInterface& pod, const Outgoing& outgoing) {
  netlink::PacketSocket socket(pod.ns, pod.link.index, kClientPort);
  if (!pod.link.up) pod.socket.send(netlink::set_link(pod.link, {.up = true}));
  socket.send(datagram_of(encode(outgoing.message), outgoing.ends), outgoing.to);
  close_aside(socket.take_fd());
  if (!pod.link.up) pod.socket.send(netlink::set_link(pod.link, {.up = false}));
}

void send_over(OpenInterface& pod, const Outgoing& outgoing) try {
  try_send_over(pod, outgoing);
} catch (const netlink::Error&) {
  try_send_over(pod, outgoing);
}

}  // namespace dhcp
