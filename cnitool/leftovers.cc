#include "cnitool/leftovers.h"

#include <set>

#include "cnitool/cached.h"
#include "cnitool/output.h"
#include "cnitool/pool.h"
#include "cnitool/sightings.h"
#include "libcni/plugin/log.h"
#include "libcni/runtime/cache.h"

namespace tool {

namespace {

// Addresses of attachments in the cache: their earlier owner does not live for it.
std::set<netlink::Ip> listed_addresses(const std::string& network, const std::string& cache_dir) {
  std::set<netlink::Ip> out;
  for (const cni::CachedAttachment& one : cni::Cache(cache_dir).list().attachments) {
    if (one.key.network != network) continue;
    for (const auto& address : result_of(one).ips) out.insert(address.cidr.ip);
  }
  return out;
}

// Containers whose lease is the address of an interface in a namespace.
std::set<std::string> seen_containers(const cni::NetworkList& list, const std::string& cache_dir) {
  const Sightings seen = look_at_namespaces();
  const auto listed = listed_addresses(list.name, cache_dir);
  std::set<std::string> out;
  for (const Pool& pool : pools_of(list)) {
    for (const Reservation& one : pool.reservations) {
      if (seen.has(one.ip, one.ifname) && !listed.contains(one.ip)) out.insert(one.container_id);
    }
  }
  return out;
}

// A look is no operation.
cni::Runtime quiet(cni::RuntimeOptions options) {
  options.observer = {};
  options.env.erase(cni::kLogVariable);
  return cni::Runtime(std::move(options));
}

}  // namespace

std::set<std::string> networks_of(const std::vector<cni::PluginConf>& plugins,
                                  const cni::RuntimeOptions& options) {
  cni::NetworkList none;
  none.name = "no.network";  // the plugins name the others
  none.plugins = plugins;
  std::set<std::string> out;
  for (const auto& [plugin, one] : quiet(options).leftovers(none, {})) {
    out.insert(one.network.empty() ? none.name : one.network);
  }
  return out;
}

std::vector<cni::Runtime::Found> leftovers_of(const cni::NetworkList& list,
                                              const std::vector<cni::Attachment>& valid,
                                              const cni::RuntimeOptions& options) {
  auto out = quiet(options).leftovers(list, valid);
  std::erase_if(out, [](const cni::Runtime::Found& one) { return !one.leftover.network.empty(); });
  if (out.empty()) return out;
  std::set<std::string> containers = seen_containers(list, options.cache_dir);
  std::set<std::string> tags;
  for (const auto& [plugin, one] : out) {
    if (!one.alive) continue;
    tags.insert(one.tag);
    if (!one.container_id.empty()) containers.insert(one.container_id);
  }
  for (auto& [plugin, one] : out) {
    one.alive |= tags.contains(one.tag) || containers.contains(one.container_id);
  }
  return out;
}

std::string text_of(const cni::Runtime::Found& one) {
  const auto& [plugin, what] = one;
  std::string out = cat(plugin, ": ", what.what);
  if (!what.container_id.empty()) out += cat(" of ", what.container_id.substr(0, 12));
  return what.ifname.empty() ? out : cat(out, " (", what.ifname, ")");
}

}  // namespace tool
