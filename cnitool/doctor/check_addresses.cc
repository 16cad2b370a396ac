#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"

namespace tool::doctor {

namespace {

using netlink::Ip;

// Every pod may have these addresses: containerd attaches each one to "cni-loopback".
bool is_everybodys(const Ip& ip) { return ip.is_loopback() || ip.is_link_local(); }

// Pods of a network that has another name by now, or whose file was removed, in the range of
// another one, which has its own leases.
void add_of_other_networks(const Node& node, Findings& out) {
  constexpr std::size_t kMax = 3;  // pods that the text names
  std::map<std::pair<std::string, const Pool*>, std::vector<const cni::AttachmentKey*>> found;
  for (const AttachmentState& one : node.attachments) {
    if (!one.is_alive() || !node.which.has(one.key)) continue;
    if (node.network(one.key.network) != nullptr) continue;
    for (const Pool& pool : node.pools) {
      const bool is_in = std::ranges::any_of(one.result.ips, [&](const cni::Address& address) {
        return std::ranges::any_of(
            pool.sets, [&](const auto& set) { return set.find(address.cidr.ip) != nullptr; });
      });
      if (is_in) found[{one.key.network, &pool}].push_back(&one.key);
    }
  }
  for (const auto& [where, pods] : found) {
    const auto& [network, pool] = where;
    Names names;
    for (const cni::AttachmentKey* const key : pods) names.push_back(name_of(node, *key));
    out.push_back(
        {Level::kWarning,
         cat("network '", network, "', which no file names, has ",
             counted(names.size(), "attachment"), " in the range of network '", pool->network,
             "': ", some_of(names)),
         cat("network '", pool->network,
             "' has leases of its own: where it cannot see the pods, as "
             "on another node or bridge, it gives their addresses away"),
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
