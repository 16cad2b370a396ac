#include <algorithm>
#include <map>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"
#include "cnitool/output.h"

// State files that a later release of patchbay wrote, as a node has them after a downgrade.
namespace tool::doctor {

namespace {

std::string paths_of(const std::vector<const LaterFile*>& all) {
  Names out;
  for (const LaterFile* one : all) out.push_back(cat("'", one->path, "'"));
  return some_of(out);
}

std::string command_for(const Node& node, const std::string& network,
                        const std::vector<const LaterFile*>& all) {
  std::string out = "rm";
  for (const LaterFile* one : all) out += cat(" ", quoted(one->path));
  return node.network(network) == nullptr ? out : cat(out, "; ", collect(node, network));
}

// The plugins name the file in what they say of the pod.
bool is_said(const Node& node, const LaterFile& file) {
  const auto names_it = [&](const std::string& text) { return text.find(file.path) != text.npos; };
  return std::ranges::any_of(node.looks, [&](const Repaired& one) {
    const auto& [found, foreign, error] = one.report;
    return (error && names_it(text_of(*error))) ||
           std::ranges::any_of(found, [&](const auto& part) { return names_it(part.what); });
  });
}

bool is_asked_for(const Node& node, const LaterFile& file) {
  return !node.is_of_one_pod() ||
         std::ranges::any_of(file.owners, [&](const auto& key) { return node.which.has(key); });
}

}  // namespace

Findings check_state_files(const Node& node) {
  std::map<std::string, std::vector<const LaterFile*>> dead;
  Findings out;
  for (const LaterFile& one : node.later_files) {
    if (!is_asked_for(node, one)) continue;
    if (one.is_dead) {
      dead[one.owners.front().network].push_back(&one);
    } else if (!is_said(node, one)) {
      out.push_back({Level::kError,
                     cat("a later release of patchbay wrote the state file '", one.path, "'"),
                     "no verb of this release reads it; DEL of its pod fails",
                     "install the version of patchbay that wrote it"});
    }
  }
  for (const auto& [network, all] : dead) {
    out.push_back({Level::kWarning,
                   cat("network '", network, "': a later release of patchbay wrote ",
                       counted(all.size(), "state file"), " of ",
                       all.size() == 1 ? "a pod that does not exist: " : "pods that do not exist: ",
                       paths_of(all)),
                   "gc of that release removes them and what they name; gc of this one fails",
                   command_for(node, network, all),
                   {network}});
  }
  return out;
}

}  // namespace tool::doctor
