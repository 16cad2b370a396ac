#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

#include "libcni/runtime/cache.h"
#include "libcni/runtime/operation_lock.h"
#include "libcni/runtime/plugin_call.h"
#include "libcni/runtime/runtime.h"

namespace cni {

/// A result in the words of another version of the spec: the list may have been edited since.
/// \throws Error where it cannot be said in them.
nlohmann::json in_version(const nlohmann::json& result, const std::string& version);

/// The verbs on one network, once Runtime has the locks: calls the plugins in order, passes the
/// result on, and keeps the cache. Borrows options and list.
class Operation {
 public:
  Operation(const RuntimeOptions& options, const NetworkList& list)
      : options_(options), list_(list), cache_(options.cache_dir), caller_(options, list) {}

  const Cache& cache() const { return cache_; }
  const PluginCaller& caller() const { return caller_; }
  AttachmentKey key_of(const Target& target) const {
    return {list_.name, target.container_id, target.ifname};
  }
  void pass_note(std::string_view text) const {
    if (options_.pass_stderr) options_.pass_stderr(text);
  }
  OperationLock::Wait wait() const {
    return {.limit = options_.lock_limit, .stop_fd = options_.stop_fd};
  }

  nlohmann::ordered_json add(const Target& target) const;
  void del(Target target, const std::optional<CachedAttachment>& cached) const;
  /// The same with the config of its ADD: the list may have been edited since.
  void del_stale(const Target& target, const std::optional<CachedAttachment>& cached) const;
  void check(Target target) const;
  /// Takes the locks itself.
  Runtime::Removal remove(const Runtime::Dead& dead) const;
  /// Empty: another runtime's DEL ended meanwhile, and what was restored was removed again.
  std::optional<Runtime::RepairReport> repair(const CachedAttachment& cached, bool only_look) const;
  /// Empty: the pod ended meanwhile.
  std::optional<Runtime::RepairReport> restore(const Runtime::Shown& shown, bool only_look) const;
  Runtime::RepairReport reclaim(const CachedAttachment& cached, bool only_look) const;
  /// Empty: as repair().
  std::optional<Runtime::RepairReport> migrate(const CachedAttachment& cached, Form form,
                                               bool only_look) const;

 private:
  void remember(const Target& target, const nlohmann::json& result) const;
  void forget(const AttachmentKey& key) const noexcept;
  void undo(const Target& target, std::size_t called, const nlohmann::json& result) const;
  bool is_removed_again(const CachedAttachment& cached) const;
  void undo_unfinished(const CachedAttachment& cached) const;
  void remove_named(const std::vector<std::string>& tags, Runtime::Removal& out) const;
  NetworkList list_of_add(const CachedAttachment& cached) const;
  std::string owner_before(const Target& target,
                           const std::optional<CachedAttachment>& cached) const;

  const RuntimeOptions& options_;
  const NetworkList& list_;
  Cache cache_;
  PluginCaller caller_;
};

}  // namespace cni
