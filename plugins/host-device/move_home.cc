#include "plugins/host-device/move_home.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <random>
#include <vector>

#include "libcni/common/error.h"
#include "netlink/route/link_move.h"

namespace host_device {

namespace {

using cni::cat;
using netlink::Link;
using netlink::NetNs;
using netlink::RouteSocket;

constexpr int kLoopback = 1;  // the index of "lo" in every namespace

// The device's own on the node, or in the pod, or the next that no link of the node has.
int free_index(RouteSocket& host, const Device& device, const Link& link) {
  if (device.index != 0 && !host.find(device.index)) return device.index;
  int index = link.index;
  while (host.find(index)) ++index;
  return index;
}

// No pod can guess this name.
std::string random_name() {
  std::random_device source;
  char out[16];
  std::snprintf(out, sizeof out, "p%07x%07x", source() >> 4, source() >> 4);
  return out;
}

// A namespace that no pod can enter. There the device loses what must not reach the node: an
// alternative name that a link of the node has keeps it from there, and a pod adds it again faster
// than anybody removes it; IPv6 starts with other settings on a link with IFF_NOARP. Should this
// process die meanwhile, the kernel returns hardware to the node, and removes a virtual link.
class PrivateNamespace {
 public:
  PrivateNamespace() : ns_(NetNs::create()), socket_(ns_) {
    // "lo" can be an alternative name, too.
    socket_.send(netlink::set_link({.index = kLoopback, .name = "lo"}, {.name = random_name()}));
  }

  void take(PodNamespace& pod, const Link& link, const Device& device) {
    const std::string unknown = random_name();
    pod.socket.send(netlink::move_link(link, {.to = ns_, .name = unknown}));
    link_ = socket_.get(unknown);
    const netlink::LinkSettings now = netlink::settings_of(socket_, link_);
    std::vector<netlink::RouteRequest> requests;
    if (device.settings) requests = netlink::change_settings(link_, now, *device.settings);
    for (const std::string& one : now.altnames) {
      requests.push_back(netlink::remove_altname(link_, one));
    }
    // The node refuses a name that it has already, and would then get the random one.
    requests.push_back(netlink::set_link(link_, {.name = device.name}));
    socket_.send(std::move(requests));
  }
  void hand_over(const netlink::LinkMove& move) { socket_.send(netlink::move_link(link_, move)); }
  void return_to(const PodNamespace& pod, const Link& link) {
    if (!socket_.attempt(
            netlink::move_link(link_, {.to = pod.ns, .name = link.name, .index = link.index}))) {
      return;
    }
    hand_over({.to = pod.ns, .name = "dev%d"});  // the pod has taken name or index
  }

 private:
  NetNs ns_;
  RouteSocket socket_;
  Link link_;
};

void move_aside_first(PodNamespace& pod, const Link& link, const Device& device,
                      const netlink::LinkMove& move) {
  PrivateNamespace aside;
  aside.take(pod, link, device);
  try {
    aside.hand_over(move);
  } catch (const netlink::Error&) {
    aside.return_to(pod, link);
    throw;
  }
}

bool is_changed(RouteSocket& pod, const Link& link, const Device& device) {
  if (!device.settings) return false;  // unknown
  const auto& own = device.settings->altnames;
  const netlink::LinkSettings now = netlink::settings_of(pod, link);
  if (now.flags != device.settings->flags) return true;
  return std::ranges::any_of(now.altnames, [&own](const std::string& name) {
    return std::ranges::find(own, name) == own.end();
  });
}

// The device, whatever its name: the kernel renames after the move, and may refuse that.
std::optional<Link> arrived(RouteSocket& host, const Link& link, int index) {
  auto found = host.find(index);
  const bool is_it = found && found->kind == link.kind &&
                     found->permanent_mac == link.permanent_mac && found->device == link.device;
  return is_it ? found : std::nullopt;
}

Link move(RouteSocket& host, PodNamespace& pod, const Link& link, const Device& device) {
  const netlink::LinkMove home{.to = NetNs::current(),
                               .name = device.name,
                               .alias = device.alias,
                               .index = free_index(host, device, link)};
  bool must_change = is_changed(pod.socket, link, device);
  if (!must_change) {
    const auto refused = pod.socket.attempt(netlink::move_link(link, home));
    if (refused && refused->error() != EEXIST) throw netlink::Error(*refused);
    must_change = refused && !arrived(host, link, home.index);
  }
  if (must_change) move_aside_first(pod, link, device, home);
  if (auto found = arrived(host, link, home.index)) return *std::move(found);
  return host.get(device.name);  // kernels before 5.13 choose the index
}

}  // namespace

void require_free_name(RouteSocket& host, const std::string& name, int device) {
  const auto found = host.find(name);
  if (!found || found->index == device) return;
  throw cni::Error(cni::Code::kInternal,
                   cat("failed to move \"", name, "\" to hostNS: file exists"),
                   cat("the node has another link '", name, "': rename or delete it"));
}

Link move_home(RouteSocket& host, PodNamespace& pod, const Link& link, const Device& device) {
  require_free_name(host, device.name);
  return cni::during(cat("failed to move \"", device.name, "\" to hostNS"),
                     [&] { return move(host, pod, link, device); });
}

}  // namespace host_device
