#include <algorithm>
#include <atomic>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <tuple>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/places.h"
#include "cnitool/doctor/pods.h"

// The plugins' own findings about attachments, in the words of `cnitool repair --dry-run`.
namespace tool::doctor {

namespace {

using cni::RuntimeOptions;

enum class Kind { kRepairable, kForeign, kInPod, kOtherVersion, kUnchecked, kTooOld };

/// Findings of one kind about pods of one network.
struct Group {
  std::map<std::string, std::vector<const cni::AttachmentKey*>> pods;  // by text
  void add(const std::string& text, const Repaired& whose) { pods[text].push_back(&whose.key); }
};
using Groups = std::map<std::tuple<std::string, Kind, std::string>, Group>;

// plugins::document_in() and plugins::refuse_content() say so: neither REPAIR nor DEL can do
// without the version that wrote the state file.
bool is_of_other_version(std::string_view text) {
  return text.find("a newer version of patchbay wrote it") != text.npos ||
         text.find("this version of patchbay does not understand it") != text.npos;
}

// Some errors say nothing of the pod: no plugin, an invalid config, an operation that goes on.
Kind kind_of(const cni::Error& error) {
  const std::string_view what = error.what();
  if (error.code() == cni::Code::kIncompatibleVersion) return Kind::kTooOld;
  if (is_of_other_version(what)) return Kind::kOtherVersion;
  const bool unchecked =
      error.code() == cni::Code::kInvalidConfig || error.code() == cni::Code::kTryAgainLater ||
      what.find(" failed (version): ") != what.npos || what.find(": run '") != what.npos;
  return unchecked ? Kind::kUnchecked : Kind::kInPod;
}

// Another check reports what hinders the plugins and says nothing of the pod.
bool is_said(const Node& node, const Repaired& one) {
  const auto* const own = find_by(node.attachments, &AttachmentState::key, one.key);
  return (own != nullptr && broken_of(node, own->types) != nullptr) ||
         (one.report.error && is_of_disk(node, text_of(*one.report.error)));
}

// check_rules() reports it: the route is there.
bool is_of_rule(const Node& node, const Repaired& one, const std::string& what) {
  return what.find("no route ") != what.npos &&
         find_by(node.ruled_away, &RuledAway::key, one.key) != nullptr;
}

Groups groups_of(const Node& node) {
  Groups out;
  for (const Repaired& one : node.looks) {
    const std::string& network = one.key.network;
    if (is_said(node, one)) continue;
    for (const auto& [plugin, what] : one.report.found) {
      if (is_of_rule(node, one, what)) continue;
      const Kind kind = is_of_other_version(what) ? Kind::kOtherVersion : Kind::kRepairable;
      out[{network, kind, plugin}].add(cat(plugin, ": ", what), one);
    }
    for (const auto& foreign : one.report.foreign) {
      out[{network, Kind::kForeign, foreign.plugin}].add(foreign_text(foreign), one);
    }
    const auto& error = one.report.error;
    if (error && is_lost(node, one.key)) continue;  // said of leases
    if (error && is_of_rule(node, one, text_of(*error))) continue;
    if (error && error->code() != cni::Code::kUnknownContainer) {  // said of attachments
      out[{network, kind_of(*error), ""}].add(text_of(*error), one);
    }
    if (!error && one.outcome == RepairResult::kFailed && !one.why.empty()) {
      out[{network, Kind::kUnchecked, ""}].add(one.why, one);
    }
  }
  return out;
}

std::string names_of(const Node& node, const std::vector<const cni::AttachmentKey*>& pods) {
  std::vector<std::string> names;
  for (const auto* key : pods) names.push_back(name_of(node, *key));
  return some_of(names);
}

using Keys = std::vector<const cni::AttachmentKey*>;

Finding finding_of(const Node& node, Kind kind, const Keys& pods) {
  if (kind == Kind::kTooOld) return {Level::kNote, ""};
  if (kind == Kind::kUnchecked) return {Level::kUnknown, ""};
  if (kind == Kind::kOtherVersion) {
    return {Level::kError, "",
            "another version of patchbay wrote the state file; DEL of such a pod fails",
            "install the version of patchbay that wrote it"};
  }
  if (kind == Kind::kRepairable) {
    return {Level::kError, "", "another program removed or changed what ADD created on the node",
            cat(before_repair(node, pods), "cnitool repair ",
                pods.size() == 1 ? option_for(node, *pods.front()) : pods.front()->network)};
  }
  return {Level::kError, "",
          kind == Kind::kForeign ? "CHECK fails, and the plugin has no REPAIR"
                                 : "CHECK fails, and REPAIR changes nothing in a pod",
          restart_of(node, pods)};
}

// A line for each pod that the text would not name.
Names lines_of(const Node& node, const Group& group, std::size_t texts) {
  std::map<std::string, Names> by_pod;
  for (const auto& [text, pods] : group.pods) {
    for (const auto* key : pods) by_pod[name_of(node, *key)].push_back(text);
  }
  Names out;
  for (const auto& [pod, all] : by_pod)
    out.push_back(texts == 1 ? pod : cat(pod, ": ", joined(all, "; ")));
  return out;
}

}  // namespace

// Identical findings about several pods are one, and so are more than a person reads.
Findings check_pods(const Node& node) {
  constexpr std::size_t kMax = 3;  // texts, and pods in one
  Findings out;
  for (const auto& [key, group] : groups_of(node)) {
    const auto& [network, kind, plugin] = key;
    Keys all;
    for (const auto& [text, pods] : group.pods) all.insert(all.end(), pods.begin(), pods.end());
    if (group.pods.size() > kMax) {
      Finding one = finding_of(node, kind, all);
      one.lines = lines_of(node, group, group.pods.size());
      one.what = cat("network '", network, "', ", counted(one.lines.size(), "pod"), ":");
      one.networks = {network};
      out.push_back(std::move(one));
      continue;
    }
    for (const auto& [text, pods] : group.pods) {
      Finding one = finding_of(node, kind, pods);
      const bool are_many = pods.size() > kMax;
      if (are_many) one.lines = lines_of(node, {{{text, pods}}}, 1);
      one.what = cat("network '", network, "', ",
                     are_many ? counted(pods.size(), "pod") : names_of(node, pods), ": ", text);
      one.networks = {network};
      out.push_back(std::move(one));
    }
  }
  return out;
}

std::vector<Repaired> looks_of(const Node& node, const RuntimeOptions& options, Steps& steps) {
  constexpr std::time_t kMaxAddTime = 600;  // seconds; no runtime waits longer
  std::set<cni::AttachmentKey> running;
  for (const AttachmentState& one : node.attachments) {
    if (one.is_running.value_or(false)) running.insert(one.key);
  }
  auto all = cni::Cache(node.cache_dir).list().attachments;
  std::erase_if(all, [&](const cni::CachedAttachment& one) {
    const bool may_go_on = one.result->is_null() &&
                           (running.contains(one.key) || node.now - one.modified <= kMaxAddTime);
    return may_go_on || !node.which.has(one.key);
  });
  const cni::Runtime runtime(options);
  std::vector<Repaired> out(all.size());
  std::atomic<std::size_t> next = 0;
  steps.all = all.size();
  const auto work = [&] {
    for (std::size_t i = next++; i < all.size(); i = next++) {
      out[i] = repair_one(all[i], runtime, {.dry_run = true});
      ++steps.done;
    }
  };
  std::vector<std::jthread> others;
  const auto workers = std::min<std::size_t>(std::thread::hardware_concurrency(), all.size());
  for (std::size_t i = 1; i < workers; ++i) others.emplace_back(work);
  work();
  others.clear();
  return out;
}

}  // namespace tool::doctor
