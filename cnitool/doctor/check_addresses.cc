#include <algorithm>
#include <map>
#include <set>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/leftovers.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/pool.h"

namespace tool::doctor {

namespace {

using netlink::Ip;

// Every pod may have these addresses: containerd attaches each one to "cni-loopback".
bool is_everybodys(const Ip& ip) { return ip.is_loopback() || ip.is_link_local(); }

struct Held {
  cni::AttachmentKey key;
  Ip ip;
};

// The addresses that pods have of networks without a config: by the cache, or where a runtime has
// another one, by their leases.
std::vector<Held> held_without_config(const Node& node) {
  std::vector<Held> out;
  for (const AttachmentState& one : node.attachments) {
    if (!one.is_alive() || node.network(one.key.network) != nullptr) continue;
    for (const cni::Address& address : one.result.ips) out.push_back({one.key, address.cidr.ip});
  }
  std::set<cni::AttachmentKey> alive;
  for (const auto& [network, found, _] : node.leftovers) {
    const cni::Leftover& one = found.leftover;
    if (one.life == cni::Life::kAlive) alive.insert({network, one.container_id, one.ifname});
  }
  for (const Pool& pool : node.other_pools) {
    for (const Reservation& one : pool.reservations) {
      const cni::AttachmentKey key{pool.network, one.container_id, one.ifname};
      if (alive.contains(key)) out.push_back({key, one.ip});
    }
  }
  return out;
}

// Pods of a network that has another name by now, or whose file was removed, in the range of
// another one, which has its own leases.
void add_of_other_networks(const Node& node, Findings& out) {
  constexpr std::size_t kMax = 3;  // pods that the text names
  std::map<std::pair<std::string, const Pool*>, std::set<cni::AttachmentKey>> found;
  for (const auto& [key, ip] : held_without_config(node)) {
    if (!node.which.has(key)) continue;
    for (const Pool& pool : node.pools) {
      const bool is_in = std::ranges::any_of(
          pool.sets, [&ip = ip](const auto& set) { return set.find(ip) != nullptr; });
      if (is_in) found[{key.network, &pool}].insert(key);
    }
  }
  for (const auto& [where, keys] : found) {
    const auto& [network, pool] = where;
    Names names;
    std::vector<const cni::AttachmentKey*> pods;
    for (const cni::AttachmentKey& key : keys) {
      names.push_back(name_of(node, key));
      pods.push_back(&key);
    }
    out.push_back(
        {Level::kWarning,
         cat("network '", network, "', which no file names, has ",
             counted(names.size(), "attachment"), " in the range of network '", pool->network,
             "': ", some_of(names)),
         cat("network '", pool->network,
             "' has leases of its own: ADD passes over addresses of pods that it "
             "sees on its bridge or master, and gives others away"),
         cat(restart_of(node, pods), ", or in ", pool->file, " set \"name\": \"", network, "\""),
         {network, pool->network},
         names.size() > kMax ? names : Names()});
  }
}

}  // namespace

Findings check_pools(const Node& node) {
  constexpr double kNearlyFull = 0.9;
  Findings out;
  for (const Pool& pool : node.pools) {
    for (const auto& set : pool.sets) {
      const std::uint64_t all = set.size();
      const std::uint64_t used = used_of(pool, set);
      if (static_cast<double>(used) < kNearlyFull * static_cast<double>(all)) continue;
      out.push_back(
          {used >= all ? Level::kError : Level::kWarning,
           cat("network '", pool.network, "': ", used, " of ", counted(all, "address"), " of ",
               some_of(subnets_in(set)), used == 1 ? " is" : " are", " allocated"),
           "a pod without address does not start; run GC for addresses of removed pods, "
           "or add a range to the network",
           collect(node, pool.network),
           {pool.network}});
    }
  }
  return out;
}

// Two runtimes that do not share the leases.
Findings check_held(const Node& node) {
  Findings out;
  std::map<Ip, const AttachmentState*> holders;
  for (const AttachmentState& one : node.attachments) {
    if (!one.is_alive()) continue;
    for (const cni::Address& address : one.result.ips) {
      const Ip& ip = address.cidr.ip;
      if (is_everybodys(ip)) continue;
      const auto [it, is_new] = holders.emplace(ip, &one);
      if (is_new || !(node.which.has(one.key) || node.which.has(it->second->key))) continue;
      out.push_back({Level::kError,
                     cat("address ", ip.str(), " belongs to ", it->second->key.str(), " and to ",
                         one.key.str()),
                     "packets reach only one of the two; restart one of the pods",
                     cat("cnitool list ", one.key.network),
                     {one.key.network, it->second->key.network}});
    }
  }
  add_of_other_networks(node, out);
  return out;
}

}  // namespace tool::doctor
