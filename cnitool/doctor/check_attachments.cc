#include <map>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"

// Attachments whose pod does not exist.
namespace tool::doctor {

namespace {

constexpr std::time_t kLongestAdd = 600;  // seconds; no runtime waits longer
constexpr const char* kKept = "addresses and hostPorts stay in use";

// Its age decides if no lock tells whether its ADD goes on.
bool is_interrupted(const Node& node, const AttachmentState& one) {
  return !one.is_finished && (one.is_running == false || node.now - one.modified > kLongestAdd);
}

bool has_gc(const Node& node, const std::string& network) {
  const cni::NetworkList* const list = node.network(network);
  return list == nullptr || !list->disable_gc;
}

// DEL of the one, GC for several. A network whose config forbids GC has DEL of each.
std::string removal(const Node& node, const std::vector<const AttachmentState*>& all) {
  const std::string& network = all.front()->key.network;
  if (all.size() > 1 && has_gc(node, network)) return cat("cnitool gc ", network, " --keep-alive");
  std::string out;
  for (const AttachmentState* one : all) {
    const auto& [its_network, id, ifname] = one->key;
    out += cat(out.empty() ? "" : "; ", "cnitool del ", its_network, " ", quoted(one->netns),
               " --container-id ", id, " --ifname ", ifname);
  }
  return out;
}

// Groups by network and by refusal of the config: a pod that is started again and again leaves
// many of the same.
void add_interrupted(const Node& node, Findings& out) {
  std::map<std::pair<std::string, std::string>, std::vector<const AttachmentState*>> found;
  for (const AttachmentState& one : node.attachments) {
    if (node.which.has(one.key) && is_interrupted(node, one))
      found[{one.key.network, one.refusal}].push_back(&one);
  }
  for (const auto& [what, all] : found) {
    const auto& [network, refusal] = what;
    std::vector<std::string> names;
    for (const AttachmentState* one : all) names.push_back(name_of(node, one->key));
    out.push_back({Level::kWarning,
                   cat("network '", network, "' has ", counted(all.size(), "attachment"),
                       " whose ADD ", refusal.empty() ? "was interrupted: " : "failed: ",
                       some_of(names), refusal.empty() ? "" : cat("; ", refusal)),
                   kKept,
                   removal(node, all),
                   {network}});
  }
}

}  // namespace

Findings check_dead(const Node& node) {
  Findings out;
  std::map<std::string, std::vector<std::string>> dead;
  for (const AttachmentState& one : node.attachments) {
    const bool gone =
        one.liveness == cni::Liveness::kNoNamespace || one.liveness == cni::Liveness::kNoInterface;
    if (node.which.has(one.key) && one.is_finished && gone) {
      dead[one.key.network].push_back(cat(name_of(node, one.key), ", ", str(one.liveness)));
    }
  }
  for (const auto& [network, names] : dead) {
    out.push_back(
        {Level::kWarning,
         cat("network '", network, "' has ", counted(names.size(), "attachment"),
             names.size() == 1 ? " whose pod does not exist: " : " whose pods do not exist: ",
             some_of(names)),
         kKept,
         cat("cnitool gc ", network, " --keep-alive"),
         {network}});
  }
  add_interrupted(node, out);
  for (const cni::Cache::Broken& one : node.broken) {
    const std::string file = cat(node.cache_dir, "/results/", one.name);
    out.push_back({Level::kWarning, cat("cache file '", file, "' is broken: ", one.why),
                   "DEL runs without the config and arguments of ADD", cat("rm ", file)});
  }
  return out;
}

}  // namespace tool::doctor
