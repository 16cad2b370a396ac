#include "cnitool/leftovers.h"

#include <algorithm>
#include <map>

#include "cnitool/output.h"
#include "cnitool/pool.h"
#include "cnitool/sightings.h"
#include "libcni/plugin/log.h"
#include "libcni/runtime/cache.h"

namespace tool {

namespace {

// What is known of attachments and of containers, by tag and by ID.
using Known = std::map<std::string, cni::Life>;

void add(Known& known, const std::string& name, cni::Life life) {
  if (name.empty()) return;
  const auto [at, is_new] = known.emplace(name, life);
  if (!is_new) at->second = std::max(at->second, life);
}

// A thing in the namespace of a pod, which says itself whose it is, tells nothing of others.
Known known_of(const std::vector<cni::Runtime::Found>& found) {
  Known out;
  for (const auto& [plugin, one] : found) {
    if (one.is_claim) continue;
    add(out, one.tag, one.life);
    add(out, one.container_id, one.life);
  }
  return out;
}

// Containers whose lease is the address of an interface in a namespace.
void add_leases(const cni::NetworkList& list, const Sightings& seen, Known& known) {
  for (const Pool& pool : pools_of(list)) {
    for (const Reservation& one : pool.reservations) {
      const cni::AttachmentKey key{list.name, one.container_id, one.ifname};
      if (seen.has_address(key, one.ip)) add(known, one.container_id, cni::Life::kAlive);
      if (seen.may_have(one.ip)) add(known, one.container_id, cni::Life::kUnseen);
    }
  }
}

cni::Life life_of(const cni::Leftover& one, const Known& known, const Sightings& seen) {
  cni::Life out = one.life;
  for (const std::string& name : {one.tag, one.container_id}) {
    const auto found = known.find(name);
    if (found != known.end()) out = std::max(out, found->second);
  }
  if (seen.has_veth(one.tag) || seen.has_tag(one.container_id, one.tag)) return cni::Life::kAlive;
  return out == cni::Life::kDead && !seen.hidden.empty() ? cni::Life::kUnseen : out;
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
  const Sightings seen = look_at_pods(cni::Cache(options.cache_dir).list().attachments);
  Known known = known_of(out);
  add_leases(list, seen, known);
  for (auto& [plugin, one] : out) one.life = life_of(one, known, seen);
  return out;
}

bool is_of(const cni::Attachment& whose, const std::string& network, const cni::Leftover& one) {
  const auto& [id, ifname] = whose;
  return one.tag == cni::AttachmentKey{network, id, ifname}.tag() ||
         (one.ifname.empty() && one.container_id == id);
}

std::string text_of(const cni::Runtime::Found& one) {
  const auto& [plugin, what] = one;
  std::string out = cat(plugin, ": ", what.what);
  if (!what.container_id.empty()) out += cat(" of ", what.container_id.substr(0, 12));
  return what.ifname.empty() ? out : cat(out, " (", what.ifname, ")");
}

std::string_view why_it_stays(cni::Life life) {
  static_assert(cni::kLongestStart == 120);
  switch (life) {
    case cni::Life::kDead:
      return "";
    case cni::Life::kYoung:
      return "it is younger than 2 minutes, and an ADD may be running";
    case cni::Life::kUnseen:
      return "whether its pod lives cannot be seen from this mount namespace";
    case cni::Life::kAlive:
      return "its pod lives";
  }
  return "";
}

}  // namespace tool
