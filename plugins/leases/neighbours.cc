#include "plugins/leases/neighbours.h"

#include <unistd.h>

#include <algorithm>

#include "libcni/common/hash.h"
#include "libcni/config/names.h"
#include "plugins/common/link/host_veth.h"
#include "plugins/names/links.h"

namespace leases {

using cni::cat;
using netlink::Link;
using netlink::NetNs;
using netlink::RouteSocket;

static constexpr const char* kBridge = "bridge";  // a key of the plugin bridge

/// The owner of a lease of another network.
struct Neighbours::Tenant {
  cni::AttachmentKey key;
  Ip ip;

  // Links of the reference plugins have no alias, and the pod can remove that of others.
  bool has(RouteSocket& pod, const Link& link) const {
    if (link.alias.starts_with(key.tag())) return true;
    return std::ranges::any_of(pod.addresses(link),
                               [&](const auto& one) { return one.cidr.ip == ip; });
  }
};

// Index of the link of the node that a pod's interface shares with others; 0: none. A VLAN of a
// link is one interface's alone.
static int master_of(RouteSocket& pod, const Link& link) {
  if (link.kind == "vlan" || !link.parent_nsid) return 0;
  return link.parent_nsid == pod.nsid(NetNs::current()) ? link.parent_index : 0;
}

Segment Segment::of(const cni::Request& request) {
  std::string type;
  Segment out{.netns = request.netns, .ifname = request.ifname};
  const cni::Reader root = request.reader();
  root.into("type", type);
  if (cni::stands_for(type, "ptp")) out.kind = Kind::kRoutes;
  if (!cni::stands_for(type, "bridge")) return out;
  out.kind = Kind::kBridge;
  out.bridge = names::kDefaultBridge;
  root.into(kBridge, out.bridge);
  return out;
}

Neighbours::Neighbours(const Segment& segment, const std::string& data_dir, const Store& store)
    : segment_(segment), store_(store), base_(cni::Dir::open(data_dir)) {
  if (!base_) return;
  others_ = base_->names();
  std::erase(others_, store.network());
}

std::string Neighbours::network_with(const Ip& ip) {
  for (const std::string& network : others_) {
    const std::string file = cat(network, "/", ip.str());
    if (::faccessat(base_->fd(), file.c_str(), F_OK, 0) == 0 && lives(network, ip)) return network;
  }
  return {};
}

bool Neighbours::lives(const std::string& network, const Ip& ip) {
  const auto dir = base_->sub_or_link(network);
  const auto file = dir ? dir->read(ip.str()) : std::nullopt;
  const auto owner = file ? owner_in(file->content) : std::nullopt;
  if (!owner || owner->ifname.empty()) return false;
  const Tenant tenant{{network, owner->container_id, owner->ifname}, ip};
  if (segment_.kind == Segment::Kind::kMaster) {
    return own_master() != 0 && lives_in_its_namespace(tenant);
  }
  const auto veths = plugins::host_veths_of(host(), tenant.key.tag());
  if (veths.empty()) return lives_in_its_namespace(tenant);
  return std::ranges::any_of(veths, [&](const Link& link) { return is_on_segment(link); });
}

// A namespace that exists and cannot be looked into may have the address.
bool Neighbours::lives_in_its_namespace(const Tenant& tenant) try {
  const auto& [network, id, ifname] = tenant.key;
  const auto path = store_.host().cached_netns(cat(network, "-", id, "-", ifname));
  const auto ns = path ? NetNs::find(*path) : std::nullopt;
  if (!ns) return false;
  RouteSocket pod(*ns);
  return std::ranges::any_of(pod.links(), [&](const Link& link) {
    return is_on_segment(*ns, pod, link) && tenant.has(pod, link);
  });
} catch (const netlink::Error&) {
  return true;
}

bool Neighbours::is_on_segment(const NetNs& ns, RouteSocket& pod, const Link& inside) {
  if (segment_.kind == Segment::Kind::kMaster) return master_of(pod, inside) == own_master();
  if (inside.kind != "veth") return false;
  const auto veth = host().find(inside.peer_index);  // set by the pod: the host's end decides
  return veth && veth->kind == "veth" && veth->peer_index == inside.index && veth->peer_nsid &&
         veth->peer_nsid == host().nsid(ns) && is_on_segment(*veth);
}

bool Neighbours::is_on_segment(const Link& host_veth) {
  if (!host_veth.peer_nsid || !host().has_namespace(*host_veth.peer_nsid)) return false;
  const bool is_port = host_veth.master != 0;
  if (!is_port || segment_.kind == Segment::Kind::kRoutes) {
    return !is_port && segment_.kind == Segment::Kind::kRoutes;
  }
  const auto master = host().find(host_veth.master);
  return master && master->name == segment_.bridge;
}

int Neighbours::own_master() {
  if (own_master_) return *own_master_;
  own_master_ = 0;
  if (const auto ns = NetNs::find(segment_.netns)) {
    RouteSocket pod(*ns);
    if (const auto link = pod.find(segment_.ifname)) own_master_ = master_of(pod, *link);
  }
  return *own_master_;
}

RouteSocket& Neighbours::host() {
  if (!host_) host_.emplace();
  return *host_;
}

}  // namespace leases
