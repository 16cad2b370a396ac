#include "libcni/runtime/runtime.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "libcni/common/undo.h"
#include "libcni/config/names.h"
#include "libcni/plugin/log.h"
#include "libcni/runtime/liveness.h"
#include "libcni/runtime/operation.h"

namespace cni {

namespace {

// Wrong names are found before the first plugin is called. For DEL too: no ADD can have had them.
void require_names(const NetworkList& list, const Target& target) {
  check_network_name(list.name);
  check_container_id(target.container_id);
  check_ifname(target.ifname);
}

/// One operation, for the log.
struct Subject {
  const RuntimeOptions& options;
  const NetworkList& list;
  Command command;
  const Target* target = nullptr;
};

template <class Fn>
std::invoke_result_t<Fn> logged(const Subject& what, Fn&& fn) {
  const auto run = [&fn] { return as_error(std::forward<Fn>(fn)); };
  if (log_place(what.options.env) == nullptr) return run();
  const Env env = environment_for(what.options, what.command, what.target);
  return cni::logged({.kind = "operation",
                      .plugin = {},
                      .env = env,
                      .network = what.list.name,
                      .cni_version = what.list.version},
                     run);
}

OperationLock lock(const Operation& operation, const Target& target) {
  const Phase phase("lock");
  return OperationLock::of_attachment(operation.cache(), operation.key_of(target),
                                      operation.wait());
}

// DEL, CHECK and REPAIR go on without a lock where there can be none, as on a disk that has become
// read-only.
std::optional<OperationLock> lock_if_possible(const Operation& operation, const Target& target) {
  const Phase phase("lock");
  try {
    return OperationLock::of_attachment(operation.cache(), operation.key_of(target),
                                        operation.wait());
  } catch (const netlink::Error& e) {
    operation.pass_note(cat("going on without a lock: ", e.what()));
    return std::nullopt;
  }
}

OperationLock lock_network(const Operation& operation, const std::string& network) {
  const Phase phase("lock");
  return OperationLock::of_network(operation.cache(), network, operation.wait());
}

std::set<Attachment> checked(const std::vector<Attachment>& valid) {
  std::size_t index = 0;
  for (const Attachment& one : valid) {
    try {
      check_container_id(one.container_id);
      check_ifname(one.ifname);
    } catch (const Error& e) {
      throw Error(Code::kInvalidConfig, cat("valid attachments[", index, "]: ", e.what()),
                  e.details());
    }
    ++index;
  }
  return {valid.begin(), valid.end()};
}

nlohmann::json json_of(const std::set<Attachment>& attachments) {
  auto out = nlohmann::json::array();
  for (const Attachment& one : attachments) {
    out.push_back({{"containerID", one.container_id}, {"ifname", one.ifname}});
  }
  return out;
}

// Runs fn for an attachment that the cache has, under the locks.
template <class Fn>
std::optional<Runtime::RepairReport> for_cached(Subject what, const Attachment& whose, Fn&& fn) {
  const Target target{.container_id = whose.container_id, .netns = {}, .ifname = whose.ifname};
  what.target = &target;
  return logged(what, [&]() -> std::optional<Runtime::RepairReport> {
    require_names(what.list, target);
    if (what.command != Command::kReclaim && !what.list.is_at_least("0.4.0")) {
      throw Error(Code::kIncompatibleVersion, cat("configuration version \"", what.list.version,
                                                  "\" does not support repairing"));
    }
    const Operation operation(what.options, what.list);
    const auto held = lock_if_possible(operation, target);
    const auto cached = operation.cache().find(operation.key_of(target));
    if (!cached) return std::nullopt;
    return fn(operation, *cached);
  });
}

struct Stale {
  Target target;
  std::optional<CachedAttachment> cached;
};

// The network's cached attachments that are not in valid. before: the cache when the collection was
// asked for. An attachment made while it waited for the lock is valid, and is added to valid.
std::vector<Stale> stale_in(const Cache& cache, const std::string& network,
                            const Cache::Listing& before, std::set<Attachment>& valid) {
  std::set<std::string> old;
  for (const CachedAttachment& one : before.attachments) old.insert(one.stamp);
  for (const Cache::Broken& one : before.broken) old.insert(one.stamp);
  std::vector<Stale> out;
  const auto examine = [&](const Attachment& whose, const std::string& stamp, Stale stale) {
    if (valid.contains(whose)) return;
    if (old.contains(stamp)) {
      out.push_back(std::move(stale));
    } else {
      valid.insert(whose);
    }
  };
  const Cache::Listing now = cache.list();
  for (const CachedAttachment& one : now.attachments) {
    const auto& [its_network, id, ifname] = one.key;
    if (its_network != network) continue;
    examine({id, ifname}, one.stamp,
            {{.container_id = id, .netns = one.netns, .ifname = ifname}, one});
  }
  for (const Cache::Broken& one : now.broken) {
    const auto whose = one.owner_in(network);
    if (!whose) continue;
    note(cat("cache file '", cache.dir(), "/results/", one.name, "' is broken: ", one.why));
    examine(*whose, one.stamp,
            {{.container_id = whose->container_id, .netns = "", .ifname = whose->ifname}, {}});
  }
  return out;
}

void delete_stale(const Operation& operation, const Stale& stale) {
  const Target& target = stale.target;
  const auto held =
      OperationLock::of_container(operation.cache(), operation.key_of(target), operation.wait());
  during(cat("failed to delete stale attachment ", target.container_id, " ", target.ifname),
         [&] { operation.del(target, stale.cached); });
}

void collect(const Operation& operation, const NetworkList& list, std::set<Attachment>& keep,
             const std::optional<Cache::Listing>& seen) {
  const Cache& cache = operation.cache();
  BestEffort each;
  each("", [&] {
    const Cache::Listing before = seen ? *seen : cache.list();
    const auto held = lock_network(operation, list.name);
    for (const Stale& one : stale_in(cache, list.name, before, keep)) {
      each("", [&] { delete_stale(operation, one); });
    }
    if (!list.is_at_least("1.1.0")) return;
    const Call call{.command = Command::kGc, .valid_attachments = json_of(keep)};
    for (const PluginConf& plugin : list.plugins) {
      each("", [&] { operation.caller().call(plugin, call); });
    }
  });
  each.finish();
}

}  // namespace

nlohmann::ordered_json Runtime::add(const NetworkList& list, const Target& target) const {
  return logged({options_, list, Command::kAdd, &target}, [&] {
    require_names(list, target);
    const Operation operation(options_, list);
    (void)operation.key_of(target).file_name();  // it will be needed
    const auto held = lock(operation, target);
    return operation.add(target);
  });
}

void Runtime::del(const NetworkList& list, const Target& target) const {
  logged({options_, list, Command::kDel, &target}, [&] {
    require_names(list, target);
    const Operation operation(options_, list);
    const auto held = lock_if_possible(operation, target);
    operation.del(target, operation.cache().find(operation.key_of(target)));
  });
}

void Runtime::check(const NetworkList& list, const Target& target) const {
  logged({options_, list, Command::kCheck, &target}, [&] {
    require_names(list, target);
    if (!list.is_at_least("0.4.0")) {
      throw Error(Code::kIncompatibleVersion, cat("configuration version \"", list.version,
                                                  "\" does not support the CHECK command"));
    }
    if (list.disable_check) return;
    const Operation operation(options_, list);
    const auto held = lock_if_possible(operation, target);
    operation.check(target);
  });
}

std::optional<Runtime::RepairReport> Runtime::repair(const NetworkList& list,
                                                     const Attachment& whose,
                                                     bool only_look) const {
  return for_cached(
      {options_, list, Command::kRepair}, whose, [&](const auto& operation, const auto& cached) {
        if (cached.result->is_null()) return std::optional<RepairReport>();
        // The lock comes first: a DEL of others may have been in the middle of it.
        if (liveness_of(cached.netns, whose.ifname) != Liveness::kNoInterface) {
          return operation.repair(cached, only_look);
        }
        RepairReport report = operation.reclaim(cached, only_look);
        if (!report.error) {
          report.error =
              Error(Code::kUnknownContainer, "the pod's interface does not exist: restart the pod");
        }
        return std::optional(std::move(report));
      });
}

std::optional<Runtime::RepairReport> Runtime::reclaim(const NetworkList& list,
                                                      const Attachment& whose,
                                                      bool only_look) const {
  return for_cached({options_, list, Command::kReclaim}, whose,
                    [&](const Operation& operation, const CachedAttachment& cached) {
                      return std::optional(operation.reclaim(cached, only_look));
                    });
}

std::optional<Runtime::RepairReport> Runtime::migrate(const NetworkList& list,
                                                      const Attachment& whose, Form form,
                                                      bool only_look) const {
  return for_cached({options_, list, Command::kMigrate}, whose,
                    [&](const Operation& operation, const CachedAttachment& cached) {
                      return cached.result->is_null() ? std::optional<RepairReport>()
                                                      : operation.migrate(cached, form, only_look);
                    });
}

std::optional<Runtime::RepairReport> Runtime::restore(const NetworkList& ipam, const Shown& shown,
                                                      bool only_look) const {
  const Target& target = shown.target;
  return logged({options_, ipam, Command::kRepair, &target}, [&]() -> std::optional<RepairReport> {
    require_names(ipam, target);
    const Operation operation(options_, ipam);
    const auto held = lock_if_possible(operation, target);
    if (operation.cache().find(operation.key_of(target))) return std::nullopt;
    return operation.restore(shown, only_look);
  });
}

void Runtime::gc(const NetworkList& list, const std::vector<Attachment>& valid,
                 const std::optional<Cache::Listing>& seen) const {
  logged({options_, list, Command::kGc}, [&] {
    check_network_name(list.name);
    std::set<Attachment> keep = checked(valid);
    if (!list.disable_gc) collect(Operation(options_, list), list, keep, seen);
  });
}

Runtime::Removal Runtime::remove(const NetworkList& list, const Dead& dead) const {
  return logged({options_, list, Command::kGc}, [&] {
    check_network_name(list.name);
    return list.disable_gc ? Removal() : Operation(options_, list).remove(dead);
  });
}

std::vector<Runtime::Found> Runtime::leftovers(const NetworkList& list,
                                               const std::vector<Attachment>& valid) const {
  NetworkList newest = list;
  newest.version = str(kNewest);
  return logged({options_, newest, Command::kGc}, [&] {
    check_network_name(list.name);
    std::set<Attachment> keep = checked(valid);
    const Operation operation(options_, newest);
    const auto keep_listed = [&] {
      for (const CachedAttachment& one : operation.cache().list().attachments) {
        if (one.key.network == list.name) keep.insert(one.key.in_network());
      }
    };
    keep_listed();
    const Call call{.command = Command::kGc, .valid_attachments = json_of(keep), .only_look = true};
    std::vector<Found> out;
    for (const PluginConf& plugin : newest.plugins) {
      if (!operation.caller().has_verb(plugin, Command::kGc)) continue;
      for (Leftover& one : leftovers_in(operation.caller().call(plugin, call))) {
        out.push_back({plugin.type, std::move(one)});
      }
    }
    keep_listed();  // without a lock: an ADD is in the cache before its plugins are called
    std::set<std::string> containers, tags;
    for (const auto& [id, ifname] : keep) {
      containers.insert(id);
      tags.insert(AttachmentKey{list.name, id, ifname}.tag());
    }
    std::erase_if(out, [&](const Found& found) {
      const Leftover& one = found.leftover;
      const bool is_whole = one.ifname.empty() && containers.contains(one.container_id);
      return is_whole || tags.contains(one.tag);
    });
    return out;
  });
}

void Runtime::status(const NetworkList& list) const {
  if (!list.is_at_least("1.1.0")) return;
  logged({options_, list, Command::kStatus}, [&] {
    const PluginCaller caller(options_, list);
    BestEffort each;
    for (const PluginConf& plugin : list.plugins) {
      each("", [&] { caller.call(plugin, {.command = Command::kStatus}); });
    }
    each.finish();
  });
}

std::vector<Runtime::PluginVersions> Runtime::versions(const NetworkList& list) const {
  return as_error([&] {
    const PluginCaller caller(options_, list);
    std::vector<PluginVersions> out;
    for (const PluginConf& plugin : list.plugins) out.push_back(caller.versions(plugin));
    return out;
  });
}

}  // namespace cni
