#include "cnitool/leftovers.h"

#include <algorithm>
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

bool is_of(const cni::Attachment& whose, const std::string& network, const cni::Leftover& one) {
  const auto& [id, ifname] = whose;
  return one.tag == cni::OwnerTag(network, id, ifname).prefix() ||
         (one.ifname.empty() && one.container_id == id);
}

// Whether the plugins found something of the attachment, and no pod that has it.
bool is_dead(const cni::Attachment& whose, const std::string& network,
             const std::vector<cni::Runtime::Found>& found) {
  bool is_left = false, lives = false;
  for (const auto& [plugin, one] : found) {
    if (!is_of(whose, network, one)) continue;
    is_left = true;
    lives |= one.alive;
  }
  return is_left && !lives;
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

std::vector<cni::Attachment> broken_in(const cni::Cache::Listing& seen, const std::string& network,
                                       const std::vector<cni::Attachment>& keep) {
  std::vector<cni::Attachment> out;
  for (const cni::Cache::Broken& one : seen.broken) {
    const auto whose = one.owner_in(network);
    if (whose && std::find(keep.begin(), keep.end(), *whose) == keep.end()) out.push_back(*whose);
  }
  return out;
}

Unlisted unlisted_in(const cni::NetworkList& list, const cni::RuntimeOptions& options,
                     const cni::Cache::Listing& seen, Kept& kept) {
  auto& keep = kept.attachments;
  Unlisted out{.found = leftovers_of(list, keep, options)};
  for (const cni::Attachment& whose : broken_in(seen, list.name, keep)) {
    const bool stays = kept.living_too && !is_dead(whose, list.name, out.found);
    (stays ? keep : out.broken).push_back(whose);
  }
  std::erase_if(out.found, [&](const cni::Runtime::Found& one) {
    return std::any_of(out.broken.begin(), out.broken.end(), [&](const cni::Attachment& whose) {
      return is_of(whose, list.name, one.leftover);
    });
  });
  return out;
}

std::string text_of(const cni::Runtime::Found& one) {
  const auto& [plugin, what] = one;
  std::string out = cat(plugin, ": ", what.what);
  if (!what.container_id.empty()) out += cat(" of ", what.container_id.substr(0, 12));
  return what.ifname.empty() ? out : cat(out, " (", what.ifname, ")");
}

}  // namespace tool
