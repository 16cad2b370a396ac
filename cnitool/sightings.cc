#include "cnitool/sightings.h"

#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "cnitool/cached.h"
#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "libcni/plugin/collect.h"
#include "libcni/runtime/liveness.h"
#include "netlink/route/socket.h"
#include "netlink/types/mac.h"
#include "netlink/visibility.h"

namespace tool {

namespace {

using cni::CachedAttachment;
using netlink::Link;
using netlink::NetNs;
using netlink::RouteSocket;

constexpr const char* kNamed = "/run/netns";

// One path for each namespace but that of this process; those of /run/netns first.
std::vector<std::string> namespaces() {
  std::vector<std::string> paths;
  for (const std::string& name : cni::names_in(kNamed))
    paths.push_back(cni::cat(kNamed, "/", name));
  for (const std::string& process : cni::names_in("/proc")) {
    if (process.find_first_not_of("0123456789") == std::string::npos) {
      paths.push_back(cni::cat("/proc/", process, "/ns/net"));
    }
  }
  std::set<NetNs::Id> known;
  const auto is_new = [&known](const std::string& path) {
    const auto id = NetNs::id_at(path);
    return id && known.insert(*id).second;
  };
  is_new("/proc/self/ns/net");
  std::erase_if(paths, [&](const std::string& path) { return !is_new(path); });
  return paths;
}

// A runtime makes the file first and mounts the namespace on it then, and `ip netns del` in the
// reverse order: a young one says nothing.
bool is_old(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 && cni::life_by_age(about.st_mtime) == cni::Life::kDead;
}

SeenNamespace look_into(const NetNs& ns) {
  SeenNamespace out;
  RouteSocket pod(ns);
  std::map<int, std::size_t> places;
  for (const Link& link : pod.links()) {
    places.emplace(link.index, out.links.size());
    out.links.push_back({.index = link.index,
                         .name = link.name,
                         .alias = link.alias,
                         .has_parent_outside = link.parent_nsid.has_value()});
    if (std::string tag = cni::OwnerTag::prefix_in(link.alias); !tag.empty())
      out.tags.insert(std::move(tag));
  }
  for (const netlink::LinkAddress& one : pod.addresses()) {
    const auto place = places.find(one.link);
    if (place == places.end()) continue;
    SeenLink& link = out.links[place->second];
    out.addresses.emplace(one.cidr.ip, link.name);
    link.addresses.push_back(one.cidr);
  }
  return out;
}

// A device of host-device has no tag.
std::string sign_of(const std::string& mac, const netlink::Ip& ip) {
  return cni::cat(mac, " ", ip.str());
}

// Of an interface that stands on a link of the node.
std::string sign_of_node(const std::string& tag) { return cni::cat("node ", tag); }

// The attachments of a pod to which no link of the node leads: their tags, and IP addresses, alone
// and with MAC addresses. A pod of another node on the same kernel may have the same tags. One that
// makes a namespace in its own has no say, because it has no capability for one of this user
// namespace.
std::set<std::string> signs_in(const NetNs& ns) {
  std::set<std::string> out;
  if (!netlink::is_of_own_users(ns)) return out;
  RouteSocket pod(ns);
  const auto node = pod.nsid(NetNs::current());
  std::map<int, std::string> macs;
  for (const Link& link : pod.links()) {
    const bool stands_on_node = link.parent_index != 0 && node && link.parent_nsid == node;
    const std::string tag = cni::OwnerTag::prefix_in(link.alias);
    if (stands_on_node && !tag.empty()) out.insert(sign_of_node(tag));
    out.insert(tag);
    macs.emplace(link.index, link.mac.str());
  }
  for (const netlink::LinkAddress& one : pod.addresses()) {
    out.insert(sign_of(macs[one.link], one.cidr.ip));
    out.insert(one.cidr.ip.str());
  }
  out.erase("");
  return out;
}

// The containers of the cache by their namespaces.
std::multimap<NetNs::Id, std::string> cached_owners(const std::vector<CachedAttachment>& cached) {
  std::multimap<NetNs::Id, std::string> out;
  for (const CachedAttachment& one : cached) {
    if (const auto id = NetNs::id_at(one.netns)) out.emplace(*id, one.key.container_id);
  }
  return out;
}

void add_owners(const std::vector<Link>& veths, int nsid, std::set<std::string>& owners) {
  for (const Link& link : veths) {
    if (link.peer_nsid != nsid || !cni::OwnerTag::is_tag(link.alias)) continue;
    owners.insert(cni::OwnerTag::prefix_in(link.alias));
    const auto whose = cni::owner_in(link.alias, cni::OwnerTag::network_in(link.alias));
    if (!whose.container_id.empty()) owners.insert(whose.container_id);
  }
}

// The host veth that the result names, as those of the reference plugins have no alias.
bool has_named_veth(const CachedAttachment& one, const Sightings& seen) {
  const cni::Result result = result_of(one);
  return std::ranges::any_of(result.interfaces, [&](const cni::Interface& named) {
    return named.sandbox.empty() && std::ranges::any_of(seen.veths, [&](const Link& link) {
             return link.alias.empty() && link.name == named.name &&
                    netlink::Mac::parse(named.mac) == link.mac;
           });
  });
}

bool is_shown(const CachedAttachment& one, const Sightings& seen) {
  const std::string tag = one.key.tag();
  if (seen.has_veth(tag) || has_named_veth(one, seen)) return true;
  if (seen.has_tag(one.key.container_id, tag)) return true;
  const cni::Result result = result_of(one);
  return std::ranges::any_of(result.ips, [&](const auto& address) {
    const netlink::Ip& ip = address.cidr.ip;
    return seen.has_address(one.key, ip) ||
           std::ranges::any_of(result.interfaces, [&](const cni::Interface& named) {
             return !named.sandbox.empty() && seen.has_sign(sign_of(named.mac, ip));
           });
  });
}

bool has_living_peer(RouteSocket& node, const Link& link) {
  return link.kind == "veth" && link.peer_nsid && node.has_namespace(*link.peer_nsid);
}

// No namespace lives longer than the kernel.
bool is_of_earlier_boot(const CachedAttachment& one) {
  constexpr std::time_t kClockWasSet = 60;
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return one.modified + kClockWasSet < std::time(nullptr) - now.tv_sec;
}

}  // namespace

void Sightings::add(Link veth) {
  if (std::string tag = cni::OwnerTag::prefix_in(veth.alias); !tag.empty())
    veth_tags_.insert(std::move(tag));
  veths.push_back(std::move(veth));
}

void Sightings::add(SeenNamespace one) {
  const std::size_t index = namespaces.size();
  for (const std::string& tag : one.tags) by_tag_.emplace(tag, index);
  for (const auto& [ip, ifname] : one.addresses) by_address_.emplace(ip, index);
  namespaces.push_back(std::move(one));
}

bool Sightings::has_tag(const std::string& container, const std::string& tag) const {
  if (unnamed_.contains(sign_of_node(tag))) return true;
  const auto [begin, end] = by_tag_.equal_range(tag);
  return std::any_of(begin, end, [&](const auto& found) {
    const SeenNamespace& one = namespaces[found.second];
    const bool is_its = one.owners.contains(container) || one.owners.contains(tag);
    return one.owners.empty() || is_its;
  });
}

bool Sightings::has_address(const cni::AttachmentKey& key, const netlink::Ip& ip) const {
  const auto [begin, end] = by_address_.equal_range(ip);
  return std::any_of(begin, end, [&](const auto& found) {
    const SeenNamespace& one = namespaces[found.second];
    const bool is_its = one.owners.contains(key.container_id) || one.owners.contains(key.tag());
    if (!one.owners.empty() && !is_its) return false;
    const auto at = one.addresses.lower_bound({ip, ""});
    const bool any_name = is_its || key.ifname.empty();  // which the pod can change
    return any_name ? at != one.addresses.end() && at->first == ip
                    : one.addresses.contains({ip, key.ifname});
  });
}

std::string Sightings::path_of(const cni::AttachmentKey& key) const {
  const auto it = std::ranges::find_if(namespaces, [&](const SeenNamespace& one) {
    return one.owners.contains(key.container_id) || one.owners.contains(key.tag());
  });
  if (it != namespaces.end()) return it->path;
  const auto unnamed = unnamed_.find(key.tag());
  return unnamed == unnamed_.end() ? "" : unnamed->second;
}

Sightings look_at_pods(const std::vector<CachedAttachment>& cached) {
  Sightings out;
  RouteSocket node;
  for (Link& link : node.links_of_kind("veth")) {
    if (has_living_peer(node, link)) out.add(std::move(link));
  }
  if (netlink::may_be_own(kNamed)) out.hidden = kNamed;
  const auto by_cache = cached_owners(cached);
  for (const std::string& path : namespaces()) {
    const bool is_named = path.starts_with(kNamed);
    try {
      const auto ns = NetNs::find(path);
      if (!ns && is_named && is_old(path)) out.hidden = path;
      const auto nsid = ns ? node.nsid(*ns) : std::nullopt;
      if (!ns) continue;
      if (!is_named && !nsid) {
        for (const std::string& sign : signs_in(*ns)) out.add(sign, path);
        continue;
      }
      SeenNamespace seen = look_into(*ns);
      seen.path = path;
      seen.nsid = nsid;
      const auto [begin, end] = by_cache.equal_range(NetNs::id_at(path).value_or(NetNs::Id{}));
      for (auto at = begin; at != end; ++at) seen.owners.insert(at->second);
      if (nsid) add_owners(out.veths, *nsid, seen.owners);
      out.add(std::move(seen));
    } catch (const netlink::Error&) {
      if (is_named) out.hidden = path;  // closed to this process, or it ended
    }
  }
  return out;
}

cni::Life life_of(const CachedAttachment& one, const Sightings& seen) {
  if (one.result->is_null()) return cni::Life::kDead;
  const cni::Liveness liveness = cni::liveness_of(one.netns, one.key.ifname);
  if (liveness == cni::Liveness::kAlive || is_shown(one, seen)) return cni::Life::kAlive;
  const bool is_known = liveness != cni::Liveness::kUnknown || is_of_earlier_boot(one);
  return is_known ? cni::Life::kDead : cni::Life::kUnseen;
}

cni::Life life_now(const CachedAttachment& one) {
  Sightings seen;
  RouteSocket node;
  for (const cni::Interface& named : result_of(one).interfaces) {
    if (!named.sandbox.empty()) continue;
    auto link = node.find(named.name);
    if (link && has_living_peer(node, *link)) seen.add(*std::move(link));
  }
  return life_of(one, seen);
}

}  // namespace tool
