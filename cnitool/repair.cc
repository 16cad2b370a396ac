#include "cnitool/repair.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cnitool/cached.h"
#include "cnitool/known_plugins.h"
#include "cnitool/sightings.h"
#include "cnitool/unlisted.h"
#include "cnitool/waiting.h"
#include "libcni/runtime/liveness.h"
#include "netlink/netns.h"
#include "netlink/types/capability.h"

namespace tool {

namespace {

using cni::CachedAttachment;
using cni::Liveness;
using cni::Runtime;
using nlohmann::ordered_json;

// The order is that of RepairResult.
constexpr PaintedWord kOutcomes[] = {{"ok", Colour::kGreen},
                                     {"repaired", Colour::kYellow},
                                     {"broken", Colour::kYellow},
                                     {"failed", Colour::kRed},
                                     {"skipped", Colour::kDim}};

PaintedWord word_for(RepairResult outcome, const RepairAim& aim) {
  if (aim.form && outcome == RepairResult::kRepaired) return {"migrated", Colour::kYellow};
  if (aim.form && outcome == RepairResult::kBroken) return {"to migrate", Colour::kYellow};
  return kOutcomes[static_cast<std::size_t>(outcome)];
}

bool is_namespace(const std::string& path) try {
  return netlink::NetNs::find(path).has_value();
} catch (const netlink::Error&) {
  return true;  // and closed
}

std::string why_closed(const CachedAttachment& one) {
  if (netlink::NetNs::may_hide(one.netns) && !is_namespace(one.netns)) {
    return cat("namespace '", one.netns,
               "' cannot be seen from this mount namespace: run cnitool in that of the node");
  }
  std::string why = cat("namespace '", one.netns, "' cannot be entered");
  const auto missing = netlink::missing_of({netlink::Capability::kSysAdmin});
  if (!missing.empty()) why += cat(": this process lacks ", missing);
  return why;
}

std::string why_nameless(const CachedAttachment& one) {
  return cat("its pod lives, but not at the path of its namespace '", one.netns,
             "': `cnitool doctor` has the remedy");
}

// Why there is no interface whose surroundings could be repaired. Empty: there may be one, which is
// looked at again under the lock.
std::string why_absent(const CachedAttachment& one, Liveness liveness) {
  if (one.result->is_null()) return "its ADD was interrupted";
  if (liveness != Liveness::kNoNamespace) return {};
  return cat("its pod does not exist: 'cnitool gc ", one.key.network,
             " --keep-alive' removes what it left");
}

// containerd adds such a network of its own to each pod, in a version without repair: there is
// nothing of it on the node.
bool is_loopback(const cni::NetworkList& list) {
  return std::ranges::all_of(list.plugins, [](const cni::PluginConf& plugin) {
    return facts_of(plugin.type).has(cni::Fact::kLoopback);
  });
}

RepairResult outcome_of(const Repaired& done, const RepairAim& aim) {
  const Runtime::RepairReport& report = done.report;
  // Another program's plugin has no other form.
  if (report.error || (!report.foreign.empty() && !aim.form)) return RepairResult::kFailed;
  if (!report.found.empty()) return aim.dry_run ? RepairResult::kBroken : RepairResult::kRepaired;
  return done.why.empty() && report.foreign.empty() ? RepairResult::kOk : RepairResult::kSkipped;
}

ordered_json json_of(const std::vector<Runtime::Difference>& all) {
  auto out = ordered_json::array();
  for (const auto& one : all) out.push_back({{"plugin", one.plugin}, {"what", one.what}});
  return out;
}

ordered_json json_of(const Repaired& done, const RepairAim& aim) {
  ordered_json out{{"network", done.key.network},
                   {"containerID", done.key.container_id},
                   {"podName", done.pod},
                   {"ifname", done.key.ifname},
                   {"outcome", word_for(done.outcome, aim).text},
                   {"found", json_of(done.report.found)},
                   {"foreign", json_of(done.report.foreign)}};
  if (!done.why.empty()) out["why"] = done.why;
  if (done.report.error) out["error"] = tool::json_of(*done.report.error);
  return out;
}

void print_text(const Repaired& done, const RepairAim& aim, const Output& output) {
  constexpr std::size_t kDigits = 13;  // of a container's ID people know the beginning
  const auto& [network, container, ifname] = done.key;
  const auto [word, colour] = word_for(done.outcome, aim);
  const bool is_long = output.width != 0 && container.size() > output.width / 3;
  output.out << network << "  " << done.pod << (done.pod.empty() ? "" : "  ")
             << (is_long ? cut(container, kDigits) : container) << "  " << ifname << "  "
             << output.painted(colour, word);
  const auto line = [&output](const std::string& text) { return folded(text, 2, output.width); };
  if (!done.why.empty()) output.out << ": " << done.why;
  const bool is_all = done.report.found.empty() && done.report.foreign.empty();
  if (done.report.error) {
    output.out << (is_all ? ": " : "\n  ") << line(text_of(*done.report.error));
  }
  output.out << '\n';
  for (const auto& one : done.report.found) {
    output.out << "  " << line(cat(one.plugin, ": ", one.what)) << '\n';
  }
  for (const auto& one : done.report.foreign) {
    const std::string text =
        aim.form ? cat("'", one.plugin, "' is not patchbay's: ", one.what) : foreign_text(one);
    output.out << "  " << line(text) << '\n';
  }
  output.out << std::flush;
}

}  // namespace

std::string foreign_text(const Runtime::Difference& one) {
  return cat("cannot be repaired: '", one.plugin, "' is not patchbay's: ", one.what);
}

Repaired repair_one(const CachedAttachment& one, const Runtime& runtime, const RepairAim& aim) {
  const Liveness liveness = cni::liveness_of(one.netns, one.key.ifname);
  Repaired done{one.key, RepairResult::kOk, {}, why_absent(one, liveness)};
  if (done.why.empty() && liveness == Liveness::kUnknown) {
    return {one.key, RepairResult::kFailed, {}, why_closed(one)};
  }
  if (aim.form && !done.why.empty()) return {one.key, RepairResult::kSkipped, {}, done.why};
  try {
    // The config of then, as the network may have been edited or removed since.
    const cni::NetworkList list = cni::list_from(one.config);
    if (is_loopback(list)) return done;
    const cni::Attachment whose{one.key.container_id, one.key.ifname};
    auto report = aim.form           ? runtime.migrate(list, whose, *aim.form, aim.dry_run)
                  : done.why.empty() ? runtime.repair(list, whose, aim.dry_run)
                                     : runtime.reclaim(list, whose, aim.dry_run);
    if (!report) return {one.key, RepairResult::kSkipped, {}, "it was removed meanwhile"};
    done.report = *std::move(report);
    done.outcome = outcome_of(done, aim);
  } catch (const cni::Error& e) {
    done.outcome = RepairResult::kFailed;
    done.report.error = e;
  }
  return done;
}

namespace {

// Those that lack a lease. None of a migration, which changes no lease.
std::vector<Repaired> unlisted(const Selection& which, const RepairAim& aim, const Runtime& runtime,
                               const std::vector<CachedAttachment>& cached) {
  if (aim.form || !which.containers.empty()) return {};  // the cache has the containers named
  auto all = unlisted_in(look_at_pods(cached), cached);
  std::erase_if(all, [&which](const Unlisted& one) { return !which.has(one.key); });
  if (all.empty()) return {};
  auto out = restore_leases(all, cni::load_networks(aim.conf_dir), runtime, aim.dry_run);
  std::erase_if(out, [](const Repaired& one) { return one.outcome == RepairResult::kOk; });
  return out;
}

/// Pods that live without a namespace at their path. The node is looked at for the first of them.
class Nameless {
 public:
  explicit Nameless(const std::vector<CachedAttachment>& cached) : cached_(cached) {}
  bool has(const CachedAttachment& one) {
    if (one.result->is_null()) return false;
    if (cni::liveness_of(one.netns, one.key.ifname) != Liveness::kNoNamespace) return false;
    if (!seen_) seen_ = look_at_pods(cached_);
    return life_of(one, *seen_) == cni::Life::kAlive;
  }

 private:
  const std::vector<CachedAttachment>& cached_;
  std::optional<Sightings> seen_;
};

}  // namespace

bool repair(const Selection& which, const RepairAim& aim, cni::RuntimeOptions options,
            const Output& output) {
  options.known_verbs = std::make_shared<cni::KnownVerbs>();
  const Runtime runtime(options);
  const cni::Cache cache(options.cache_dir);
  cni::Cache::Listing found = cache.list();
  sort_by_pod(found.attachments);
  bool all_well = true;
  Steps steps;
  const auto wanted = [&which](const CachedAttachment& one) { return which.has(one.key); };
  const auto& all = found.attachments;
  steps.all = static_cast<std::size_t>(std::ranges::count_if(all, wanted));
  const Waiting waiting(aim.form ? "migrate" : "repair", &steps);
  ordered_json out{{"attachments", ordered_json::array()}, {"broken", ordered_json::array()}};
  note_broken(cache, found.broken);
  for (const auto& one : found.broken) {
    out["broken"].push_back({{"file", one.name}, {"why", one.why}});
  }
  Nameless nameless(found.attachments);
  const auto report = [&](const Repaired& done) {
    const bool is_broken = done.outcome == RepairResult::kBroken && !aim.form;
    if (done.outcome == RepairResult::kFailed || is_broken) all_well = false;
    output.json ? out["attachments"].push_back(json_of(done, aim)) : print_text(done, aim, output);
  };
  for (const CachedAttachment& one : found.attachments) {
    if (!wanted(one)) continue;
    Repaired done = nameless.has(one)
                        ? Repaired{one.key, RepairResult::kSkipped, {}, why_nameless(one)}
                        : repair_one(one, runtime, aim);
    done.pod = pod_name_of(one);
    ++steps.done;
    report(done);
  }
  for (const Repaired& done : unlisted(which, aim, runtime, found.attachments)) report(done);
  out["ok"] = all_well;
  if (output.json) output.print(out);
  return all_well;
}

}  // namespace tool
