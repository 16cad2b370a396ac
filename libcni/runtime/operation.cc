#include "libcni/runtime/operation.h"

#include <nlohmann/json.hpp>

#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "libcni/runtime/liveness.h"
#include "netlink/netns.h"

namespace cni {

namespace {

using nlohmann::json;

// Adds the arguments of ADD that DEL or CHECK was not given: the plugins get the same ones.
Target completed(Target target, const CachedAttachment& cached) {
  if (target.args.empty()) target.args = cached.args;
  if (target.capabilities->empty()) target.capabilities = cached.capabilities;
  return target;
}

// A plugin refuses the node's own namespace: an ADD there has changed nothing in it, and what it
// has on the node goes by a DEL without namespace.
Target for_unfinished(Target target) {
  try {
    if (netlink::NetNs::is_current(target.netns)) target.netns.clear();
  } catch (const netlink::Error& e) {
    note(e.what());
  }
  return target;
}

Error with_details(const Error& e, const std::string& more) {
  return {e.code(), e.what(), cat(e.details(), e.details().empty() ? "" : "; ", more)};
}

// Throws the caught exception (in a catch clause) with more details.
[[noreturn]] void rethrow_with_details(const std::string& more) {
  try {
    throw;
  } catch (const Error& e) {
    throw with_details(e, more);
  }
}

}  // namespace

json in_version(const json& result, const std::string& version) {
  std::string own;
  Reader(result, Code::kDecodingFailure).into("cniVersion", own);
  if (own.empty() || own == version) return result;
  const auto to = version_from(version);
  if (!to) {
    throw Error(Code::kIncompatibleVersion,
                cat("cannot convert the result of version \"", own, "\" to \"", version, "\""));
  }
  return to_json(result_from(result), *to);
}

void Operation::remember(const Target& target, const json& result) const {
  const Phase phase("cache");
  try {
    cache_.put({.key = key_of(target),
                .netns = target.netns,
                .args = target.args,
                .capabilities = target.capabilities,
                .config = list_.text,
                .result = result});
  } catch (const netlink::Error& e) {
    throw Error(Code::kIoFailure,
                cat("failed to set network \"", list_.name, "\" cached result: ", e.what()));
  }
}

void Operation::forget(const AttachmentKey& key) const noexcept try {
  cache_.remove(key);
} catch (const std::exception& e) {
  note(e.what());  // the work is done; a record too many is met by the next DEL or GC
}

// The owner of the attachment that DEL would remove; empty: this ADD. The pod may have renamed the
// interface of an earlier ADD, and every namespace has an `lo`: then the cache decides.
std::string Operation::owner_before(const Target& target,
                                    const std::optional<CachedAttachment>& cached) const {
  const Liveness liveness = liveness_of(target.netns, target.ifname);
  if (liveness == Liveness::kNoNamespace) return {};
  if (liveness == Liveness::kAlive && target.ifname != "lo") {
    return cat("'", target.ifname, "' was in the namespace before");
  }
  if (!cached || cached->result->is_null() || cached->netns != target.netns) return {};
  if (liveness == Liveness::kAlive) return cat("'", target.ifname, "' was in the namespace before");
  return cat("the namespace has an earlier ADD of ", key_of(target).str(), ": call DEL");
}

// DEL of the plugins that were called with ADD, also of the one that failed. All of them, whatever
// fails; where something does, the cache goes on to know of the attachment for a later DEL or GC.
void Operation::undo(const Target& target, std::size_t called, const json& result) const {
  const Phase phase("undo");
  RuntimeOptions options = options_;
  options.stop_fd = -1;  // whoever gave up the ADD does not mean this
  const PluginCaller caller(options, list_);
  Call call{.command = Command::kDel, .target = &target};
  if (list_.is_at_least("0.4.0")) call.prev_result = result;
  bool undone = true;
  for (std::size_t i = called; i > 0; --i) {
    try {
      caller.call(list_.plugins[i - 1], call);
    } catch (const Error& e) {
      // The one that failed refused the version in ADD, too: it has added nothing.
      if (i == called && e.code() == Code::kIncompatibleVersion) continue;
      note(cat("undo: ", e.what()));
      undone = false;
    }
  }
  if (undone) forget(key_of(target));
}

// A note without a result, under the lock: whoever was about that ADD has died of it.
void Operation::undo_unfinished(const CachedAttachment& cached) const {
  if (!cached.result->is_null()) return;
  note(cat("an earlier ADD of ", cached.key.str(), " did not come to its end, and is undone"));
  const Target target{.container_id = cached.key.container_id,
                      .netns = cached.netns,
                      .ifname = cached.key.ifname,
                      .args = cached.args,
                      .capabilities = cached.capabilities};
  undo(for_unfinished(target), list_.plugins.size(), nullptr);
}

nlohmann::ordered_json Operation::add(const Target& target) const {
  caller_.require_plugins(Command::kAdd);
  const auto cached = cache_.find(key_of(target));
  if (options_.undo_failed_add && cached) undo_unfinished(*cached);
  const std::string owner = owner_before(target, cached);
  if (owner.empty()) remember(target, nullptr);
  Call call{.command = Command::kAdd, .target = &target};
  nlohmann::ordered_json result;
  std::size_t called = 0;
  try {
    for (const PluginConf& plugin : list_.plugins) {
      ++called;
      result = caller_.add(plugin, call);
      call.prev_result = json(result);
    }
    remember(target, call.prev_result);
    return result;
  } catch (...) {
    if (!owner.empty()) rethrow_with_details(cat("nothing was undone, as ", owner));
    if (options_.undo_failed_add) undo(for_unfinished(target), called, call.prev_result);
    throw;
  }
}

void Operation::del(Target target, const std::optional<CachedAttachment>& cached) const {
  if (cached) target = completed(std::move(target), *cached);
  if (cached && cached->result->is_null()) target = for_unfinished(std::move(target));
  Call call{.command = Command::kDel, .target = &target};
  if (cached && list_.is_at_least("0.4.0")) {
    try {
      call.prev_result = in_version(cached->result, list_.version);
    } catch (const Error& e) {
      note(cat("delete ", cached->key.str(), " without its result: ", e.what()));
    }
  }
  for (auto plugin = list_.plugins.rbegin(); plugin != list_.plugins.rend(); ++plugin) {
    caller_.call(*plugin, call);
  }
  cache_.remove(key_of(target));  // or the next DEL does
}

void Operation::check(Target target) const {
  const auto cached = cache_.find(key_of(target));
  Call call{.command = Command::kCheck, .target = &target};
  if (cached) {
    target = completed(std::move(target), *cached);
    call.prev_result = during(cat("failed to get network \"", list_.name, "\" cached result"),
                              [&] { return in_version(cached->result, list_.version); });
  }
  try {
    for (const PluginConf& plugin : list_.plugins) caller_.call(plugin, call);
  } catch (const Error& e) {
    if (!call.prev_result->is_null()) throw;
    throw with_details(e, cat("the cache has no result of ADD for ", key_of(target).str()));
  }
}

}  // namespace cni
