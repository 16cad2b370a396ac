#include <nlohmann/json.hpp>
#include <set>

#include "libcni/common/undo.h"
#include "libcni/plugin/repair.h"
#include "libcni/runtime/liveness.h"
#include "libcni/runtime/operation.h"

namespace cni {

namespace {

using nlohmann::json;
using Report = Runtime::RepairReport;

// A plugin that does not know the verb might take it for anything: it is not even asked. One of
// an attachment without pod may not exist any more.
bool is_asked_for(const PluginCaller& caller, const PluginConf& plugin, Command verb) try {
  return caller.has_verb(plugin, verb);
} catch (const Error& e) {
  note(e.what());
  return false;
}

Target target_of(const CachedAttachment& cached) {
  return {.container_id = cached.key.container_id,
          .netns = cached.netns,
          .ifname = cached.key.ifname,
          .args = cached.args,
          .capabilities = cached.capabilities};
}

/// The plugins of one attachment, one after another.
class Repairing {
 public:
  Repairing(const PluginCaller& caller, const NetworkList& list, const Target& target,
            bool only_look)
      : caller_(caller), list_(list), target_(target), only_look_(only_look) {}

  /// Gives the result of ADD as it is then. What fails is in the report.
  /// A plugin that fails left the result as it is, and the others make theirs from the addresses,
  /// which no REPAIR changes: the pod lacks no more than it must. Without the interface the
  /// addresses are another pod's by and by, and nothing is made for them.
  json run(json result, Report& report) {
    BestEffort each;
    for (const PluginConf& plugin : list_.plugins) {
      const bool is_whole = each("", [&] { repair_or_check(plugin, result, report); });
      if (!is_whole && liveness_of(target_.netns, target_.ifname) != Liveness::kAlive) break;
    }
    report.error = each.error();
    return result;
  }

  /// check() does not call it.
  void leave_out(const PluginConf& plugin) { unsound_.insert(&plugin); }

  /// CHECK of those that were whole, or are again.
  void check(const json& result, Report& report) const {
    if (list_.disable_check) return;
    try {
      for (const PluginConf& plugin : list_.plugins) {
        if (unsound_.contains(&plugin)) continue;
        caller_.call(plugin, call_of(Command::kCheck, result));
      }
    } catch (const Error& e) {
      report.error = e;
    }
  }

 private:
  Call call_of(Command command, const json& result) const {
    return {.command = command, .target = &target_, .prev_result = result, .only_look = only_look_};
  }

  void repair_or_check(const PluginConf& plugin, json& result, Report& report) {
    if (caller_.has_verb(plugin, Command::kRepair)) {
      repair(plugin, result, report);
    } else {
      check_foreign(plugin, result, report);
    }
  }

  void repair(const PluginConf& plugin, json& result, Report& report) {
    const auto done = caller_.repair(plugin, call_of(Command::kRepair, result));
    for (const std::string& what : done.found) report.found.push_back({plugin.type, what});
    if (done.found.empty()) return;  // and the result is as it was, to the letter
    if (only_look_) unsound_.insert(&plugin);
    result = *done.result;
  }

  void check_foreign(const PluginConf& plugin, const json& result, Report& report) {
    unsound_.insert(&plugin);  // at the end it would say the same
    if (list_.disable_check) return;
    try {
      caller_.call(plugin, call_of(Command::kCheck, result));
    } catch (const Error& e) {
      report.foreign.push_back({plugin.type, e.what()});
    }
  }

  const PluginCaller& caller_;
  const NetworkList& list_;
  const Target& target_;
  bool only_look_;
  std::set<const PluginConf*> unsound_;
};

}  // namespace

// Another runtime takes no lock of this one. Its DEL may have removed parts before they were
// restored, and ended since: it is not repeated, so that what was restored would stay for ever.
// With its entry nothing is lost: GC finds it.
bool Operation::is_removed_again(const CachedAttachment& cached) const {
  const Liveness now = liveness_of(cached.netns, cached.key.ifname);
  const bool is_gone = now == Liveness::kNoNamespace || now == Liveness::kNoInterface;
  if (!is_gone || cache_.find(cached.key)) return false;
  note(cat(cached.key.str(), " was removed meanwhile: what was restored is removed again"));
  del(target_of(cached), cached);
  return true;
}

std::optional<Report> Operation::repair(const CachedAttachment& cached, bool only_look) const {
  const Target target = target_of(cached);
  Report report;
  const json before = in_version(cached.result, list_.version);
  Repairing repairing(caller_, list_, target, only_look);
  const json after = repairing.run(before, report);
  if (!only_look && is_removed_again(cached)) return std::nullopt;
  if (!only_look && after != before) {
    CachedAttachment renewed = cached;
    renewed.result = after;
    cache_.put(renewed);
  }
  if (!report.error) repairing.check(after, report);
  if (!only_look && is_removed_again(cached)) return std::nullopt;
  return report;
}

std::optional<Report> Operation::restore(const Runtime::Shown& shown, bool only_look) const {
  const json result = to_json(shown.result, kNewest);
  Report report;
  BestEffort each;
  for (const PluginConf& plugin : list_.plugins) {
    each("", [&] {
      if (!caller_.has_verb(plugin, Command::kRepair)) return;
      const auto done = caller_.repair(plugin, {.command = Command::kRepair,
                                                .target = &shown.target,
                                                .prev_result = result,
                                                .only_look = only_look});
      for (const std::string& what : done.found) report.found.push_back({plugin.type, what});
    });
  }
  report.error = each.error();
  // Another runtime's DEL may have released them before they were written again.
  if (only_look || report.found.empty() || shown.lives()) return report;
  del(shown.target, std::nullopt);
  return std::nullopt;
}

Runtime::RepairReport Operation::reclaim(const CachedAttachment& cached, bool only_look) const {
  const Target target = target_of(cached);
  const Call call{.command = Command::kReclaim, .target = &target, .only_look = only_look};
  Report report;
  BestEffort each;
  for (const PluginConf& plugin : list_.plugins) {
    each("", [&] {
      if (!is_asked_for(caller_, plugin, call.command)) return;
      for (const std::string& what : caller_.found_by(plugin, call)) {
        report.found.push_back({plugin.type, what});
      }
    });
  }
  report.error = each.error();
  return report;
}

// Stops at a plugin that fails, other than repair(): nothing is lacking, in either form, and a pod
// with as few of the new ones as possible is the nearest to what it was. What fails for one plugin,
// as a kernel without nf_tables, would leave the others' rules in two places.
std::optional<Report> Operation::migrate(const CachedAttachment& cached, Form form,
                                         bool only_look) const {
  const Target target = target_of(cached);
  const json result = in_version(cached.result, list_.version);
  const Call call{.command = Command::kMigrate,
                  .target = &target,
                  .prev_result = result,
                  .only_look = only_look,
                  .form = form};
  Report report;
  Repairing checked(caller_, list_, target, false);
  try {
    for (const PluginConf& plugin : list_.plugins) {
      if (!caller_.has_verb(plugin, Command::kRepair)) {
        checked.leave_out(plugin);
        report.foreign.push_back({plugin.type, "nothing of it is changed"});
      }
      if (!caller_.has_verb(plugin, Command::kMigrate)) continue;
      for (const std::string& what : caller_.found_by(plugin, call)) {
        report.found.push_back({plugin.type, what});
      }
    }
  } catch (const Error& e) {
    report.error = e;
  }
  // CHECK of these plugins does not know all that the reference plugins do otherwise.
  const bool is_checked = !report.error && form != Form::kReference;
  if (only_look) return report;
  if (is_checked) checked.check(result, report);
  if (is_removed_again(cached)) return std::nullopt;
  return report;
}

}  // namespace cni
