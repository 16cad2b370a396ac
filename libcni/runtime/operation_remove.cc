#include <nlohmann/json.hpp>

#include "libcni/common/undo.h"
#include "libcni/plugin/collect.h"
#include "libcni/runtime/operation.h"

namespace cni {

namespace {

std::string failure_of_del(const AttachmentKey& key) {
  return cat("failed to delete stale attachment ", key.container_id, " ", key.ifname);
}

Target target_without_arguments(const CachedAttachment& cached) {
  return {
      .container_id = cached.key.container_id, .netns = cached.netns, .ifname = cached.key.ifname};
}

// The cache as it is under the lock.
struct Entries {
  explicit Entries(const Cache& cache) : listed(cache.list()) {}
  bool has(const std::string& stamp) const {
    return std::ranges::any_of(listed.attachments,
                               [&](const auto& one) { return one.stamp == stamp; }) ||
           std::ranges::any_of(listed.broken, [&](const auto& one) { return one.stamp == stamp; });
  }
  Cache::Listing listed;
};

}  // namespace

// Without plugins that were uninstalled since and that the list does not have any more: nobody can
// call them.
NetworkList Operation::list_of_add(const CachedAttachment& cached) const try {
  NetworkList out = list_from(cached.config);
  if (out.name != list_.name) return list_;
  std::erase_if(out.plugins, [&](const PluginConf& plugin) {
    const auto is_it = [&](const PluginConf& one) { return one.type == plugin.type; };
    if (std::ranges::any_of(list_.plugins, is_it) || caller_.has_plugin(plugin)) return false;
    note(cat(cached.key.str(), ": DEL without plugin '", plugin.type,
             "' of its ADD, which is not installed any more"));
    return true;
  });
  return out;
} catch (const Error& e) {
  note(cat("the config of ADD of ", cached.key.str(), " cannot be read: ", e.what()));
  return list_;
}

void Operation::del_stale(const Target& target,
                          const std::optional<CachedAttachment>& cached) const {
  const NetworkList list = cached ? list_of_add(*cached) : list_;
  Operation(options_, list).del(target, cached);
}

// A plugin of another project knows no names: its GC would remove what was added meanwhile.
void Operation::remove_named(const std::vector<std::string>& tags, Runtime::Removal& out) const {
  BestEffort each;
  const Call call{.command = Command::kGc, .remove = nlohmann::json(tags)};
  for (const PluginConf& plugin : list_.plugins) {
    each("", [&] {
      if (!caller_.has_verb(plugin, Command::kGc)) return;
      const std::string printed = caller_.call(plugin, call);
      if (printed.empty()) return;  // of a version that removes nothing by name
      for (Leftover& one : leftovers_in(printed))
        out.things.push_back({plugin.type, std::move(one)});
    });
  }
  each.finish();
}

Runtime::Removal Operation::remove(const Runtime::Dead& dead) const {
  Runtime::Removal out;
  BestEffort each;
  const auto del = [&](const AttachmentKey& key, const Target& target,
                       const std::optional<CachedAttachment>& cached) {
    each("", [&] {
      const auto held = OperationLock::of_container(cache_, key, wait());
      if (cached && !dead.is_dead(*cached)) return;
      during(failure_of_del(key), [&] { del_stale(target, cached); });
      out.attachments.push_back(key);
    });
  };
  each("", [&] {
    // Operations of this network end before it, and later ones wait.
    const auto held = OperationLock::of_network(cache_, list_.name, wait());
    const Entries now(cache_);
    for (const CachedAttachment& one : dead.attachments) {
      if (now.has(one.stamp)) del(one.key, target_without_arguments(one), one);
    }
    for (const Cache::Broken& one : dead.broken) {
      const auto whose = one.owner_in(list_.name);
      if (!whose || !now.has(one.stamp)) continue;
      const auto& [id, ifname] = *whose;
      del({list_.name, id, ifname}, {.container_id = id, .netns = "", .ifname = ifname}, {});
    }
    if (list_.is_at_least("1.1.0")) remove_named(dead.tags, out);
  });
  try {
    each.finish();
  } catch (const Error& e) {
    out.error = e;
  }
  return out;
}

}  // namespace cni
