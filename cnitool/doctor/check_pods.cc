#include <map>
#include <tuple>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"

// The plugins' own findings about attachments, in the words of `cnitool repair --dry-run`.
namespace tool::doctor {

namespace {

enum class Kind { kRepairable, kForeign, kInPod, kOtherVersion, kUnchecked, kTooOld };

/// Findings of one kind about pods of one network.
struct Group {
  std::map<std::string, std::vector<const cni::AttachmentKey*>> pods;  // by text
  void add(const std::string& text, const Repaired& whose) { pods[text].push_back(&whose.key); }
};
using Groups = std::map<std::tuple<std::string, Kind, std::string>, Group>;

// What plugins::document_in() and plugins::refuse_content() say: neither REPAIR nor DEL can do
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

Groups groups_of(const Node& node) {
  Groups out;
  for (const Repaired& one : node.looks) {
    const std::string& network = one.key.network;
    for (const auto& [plugin, what] : one.report.found) {
      const Kind kind = is_of_other_version(what) ? Kind::kOtherVersion : Kind::kRepairable;
      out[{network, kind, plugin}].add(cat(plugin, ": ", what), one);
    }
    for (const auto& foreign : one.report.foreign) {
      out[{network, Kind::kForeign, foreign.plugin}].add(foreign_text(foreign), one);
    }
    const auto& error = one.report.error;
    if (error && is_lost(node, one.key)) continue;                 // said of leases
    if (error && error->code() != cni::Code::kUnknownContainer) {  // said of attachments
      out[{network, kind_of(*error), ""}].add(text_of(*error), one);
    }
    if (!error && one.outcome == Outcome::kFailed && !one.why.empty()) {
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

Finding finding_of(Kind kind, const std::vector<const cni::AttachmentKey*>& pods,
                   std::string what) {
  const cni::AttachmentKey* const one = pods.size() == 1 ? pods.front() : nullptr;
  if (kind == Kind::kTooOld || kind == Kind::kUnchecked) {
    return {kind == Kind::kTooOld ? Level::kNote : Level::kUnknown, std::move(what)};
  }
  if (kind == Kind::kOtherVersion) {
    return {Level::kError, std::move(what),
            "another version of patchbay wrote the state file; DEL of such a pod fails",
            "install the version of patchbay that wrote it"};
  }
  if (kind == Kind::kRepairable) {
    return {Level::kError, std::move(what),
            "another program removed or changed what ADD created on the node",
            one != nullptr ? cat("cnitool repair --container-id ", one->container_id)
                           : cat("cnitool repair ", pods.front()->network)};
  }
  return {Level::kError, std::move(what),
          kind == Kind::kForeign ? "CHECK fails, and the plugin has no REPAIR"
                                 : "CHECK fails, and REPAIR changes nothing in a pod",
          one != nullptr ? cat("restart the pod of container ", one->container_id)
                         : "restart these pods"};
}

}  // namespace

// Identical findings about several pods are one, and so are more than a person reads.
Findings check_pods(const Node& node) {
  constexpr std::size_t kMaxTexts = 3;
  Findings out;
  for (const auto& [key, group] : groups_of(node)) {
    const auto& [network, kind, plugin] = key;
    std::vector<const cni::AttachmentKey*> all;
    std::vector<std::string> texts;
    Findings each;
    for (const auto& [text, pods] : group.pods) {
      all.insert(all.end(), pods.begin(), pods.end());
      texts.push_back(cat(names_of(node, pods), ": ", text));
      each.push_back(finding_of(kind, pods, cat("network '", network, "', ", texts.back())));
    }
    if (each.size() > kMaxTexts) {
      each = {finding_of(kind, all, cat("network '", network, "', ", some_of(texts)))};
    }
    for (Finding& one : each) {
      one.networks = {network};
      out.push_back(std::move(one));
    }
  }
  return out;
}

}  // namespace tool::doctor
