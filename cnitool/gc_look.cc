#include "cnitool/gc_look.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "cnitool/leftovers.h"
#include "cnitool/output.h"
#include "cnitool/sightings.h"
#include "libcni/runtime/liveness.h"

namespace tool {

namespace {

using cni::Attachment;
using cni::CachedAttachment;
using cni::Life;
using Found = cni::Runtime::Found;

// Nothing tells its namespace: it is dead if the plugins find something of it that no pod has.
Life life_of(const BrokenEntry& one, const std::string& network, const GcLook& look,
             const Sightings& seen) {
  const auto& [id, ifname] = one.whose;
  const std::string tag = cni::AttachmentKey{network, id, ifname}.tag();
  if (seen.has_veth(tag) || seen.has_tag(id, tag)) return Life::kAlive;
  std::optional<Life> out;
  for (const auto& [plugin, thing] : look.found) {
    if (is_of(one.whose, network, thing)) out = std::max(out.value_or(Life::kDead), thing.life);
  }
  return out.value_or(Life::kUnseen);
}

std::vector<Unknown> unknown_in(const GcLook& look, const std::string& network) {
  std::vector<Unknown> out;
  const auto add = [&out](const std::string& what, Life life) {
    if (is_unknown(life)) out.push_back({what, why_it_stays(life)});
  };
  for (const Entry& one : look.entries) add(one.cached.key.str(), one.life);
  for (const BrokenEntry& one : look.broken) {
    add(cat(name_of(one, network), ", whose cache entry is broken"), one.life);
  }
  for (const Found& one : look.found) add(text_of(one), one.leftover.life);
  return out;
}

// The kernel ends a namespace, and the veths that led into it, some time after its last name is
// gone (cleanup_net of net/core/net_namespace.c).
bool is_ending(const Entry& one) {
  return one.life == Life::kAlive &&
         cni::liveness_of(one.cached.netns, one.cached.key.ifname) == cni::Liveness::kNoNamespace;
}

}  // namespace

GcLook look_at(const cni::NetworkList& list, const cni::RuntimeOptions& options,
               const std::vector<Attachment>& keep, Asks asks) {
  GcLook out{.cache = cni::Cache(options.cache_dir).list()};
  const Sightings seen = look_at_pods(out.cache.attachments);
  const auto stays = [&](const Attachment& one) {
    return std::ranges::find(keep, one) != keep.end();
  };
  for (const CachedAttachment& one : out.cache.attachments) {
    if (one.key.network != list.name) continue;
    if (!stays({one.key.container_id, one.key.ifname}))
      out.entries.push_back({one, life_of(one, seen)});
  }
  for (const cni::Cache::Broken& one : out.cache.broken) {
    const auto whose = one.owner_in(list.name);
    if (whose && !stays(*whose)) out.broken.push_back({one, *whose, Life::kUnseen});
  }
  const bool is_asked = asks == Asks::kAlways || list.is_at_least("1.1.0") || !out.broken.empty();
  if (is_asked) out.found = leftovers_of(list, keep, options);
  for (BrokenEntry& one : out.broken) one.life = life_of(one, list.name, out, seen);
  std::erase_if(out.found, [&](const Found& thing) {
    return std::ranges::any_of(out.broken, [&](const BrokenEntry& one) {
      return is_of(one.whose, list.name, thing.leftover);
    });
  });
  return out;
}

Settled settled_look(const cni::NetworkList& list, const cni::RuntimeOptions& options,
                     const std::vector<Attachment>& keep, Asks asks) {
  constexpr std::chrono::milliseconds kMoment{300};
  Settled out{look_at(list, options, keep, asks), {}};
  for (int i = 0; i < 5 && std::ranges::any_of(out.look.entries, is_ending); ++i) {
    std::this_thread::sleep_for(kMoment);
    out.look = look_at(list, options, keep, asks);
  }
  const auto before = unknown_in(out.look, list.name);
  if (before.empty()) return out;
  std::this_thread::sleep_for(kMoment);
  out.look = look_at(list, options, keep, asks);
  out.unknown = unknown_in(out.look, list.name);
  std::erase_if(out.unknown,
                [&](const Unknown& one) { return std::ranges::find(before, one) == before.end(); });
  return out;
}

std::string name_of(const BrokenEntry& one, const std::string& network) {
  return cni::AttachmentKey{network, one.whose.container_id, one.whose.ifname}.str();
}

}  // namespace tool
