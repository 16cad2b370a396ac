#include <algorithm>
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

using ByNetwork = std::map<std::string, std::vector<const AttachmentState*>>;

ByNetwork finished(const Node& node, cni::Liveness liveness) {
  ByNetwork out;
  for (const AttachmentState& one : node.attachments) {
    if (!node.which.has(one.key) || !one.is_finished || one.liveness != liveness) continue;
    out[one.key.network].push_back(&one);
  }
  return out;
}

std::vector<std::string> names_of(const Node& node,
                                  const std::vector<const AttachmentState*>& all) {
  std::vector<std::string> out;
  for (const AttachmentState* one : all) {
    out.push_back(cat(name_of(node, one->key), ", ", str(one->liveness)));
  }
  return out;
}

// At a state file of a later release, of which check_state_files() has the remedy for all.
bool gc_fails(const Node& node, const std::string& network) {
  return std::ranges::any_of(node.later_files, [&](const LaterFile& one) {
    return one.is_dead && one.owners.front().network == network;
  });
}

// Its pod may run, or its namespace has outlived it: GC gives the address to others, and no pod a
// network.
void add_without_interface(const Node& node, Findings& out) {
  for (const auto& [network, all] : finished(node, cni::Liveness::kNoInterface)) {
    const bool is_one = all.size() == 1;
    std::vector<const cni::AttachmentKey*> keys;
    for (const AttachmentState* one : all) keys.push_back(&one->key);
    out.push_back(
        {Level::kWarning,
         cat("network '", network, "' has ", counted(all.size(), "attachment"),
             is_one ? " without its interface: " : " without their interfaces: ",
             some_of(names_of(node, all))),
         cat("a pod that runs has no network, and nothing but a restart gives it one; ", kKept),
         cat(restart_of(node, keys), "; if no runtime has it, cnitool gc ", network,
             " --keep-alive"),
         {network}});
  }
}

}  // namespace

Findings check_dead(const Node& node) {
  Findings out;
  for (const auto& [network, all] : finished(node, cni::Liveness::kNoNamespace)) {
    if (gc_fails(node, network)) continue;
    out.push_back(
        {Level::kWarning,
         cat("network '", network, "' has ", counted(all.size(), "attachment"),
             all.size() == 1 ? " whose pod does not exist: " : " whose pods do not exist: ",
             some_of(names_of(node, all))),
         kKept,
         cat("cnitool gc ", network, " --keep-alive"),
         {network}});
  }
  add_without_interface(node, out);
  add_interrupted(node, out);
  for (const cni::Cache::Broken& one : node.broken) {
    const std::string file = cat(node.cache_dir, "/results/", one.name);
    out.push_back({Level::kWarning, cat("cache file '", file, "' is broken: ", one.why),
                   "DEL runs without the config and arguments of ADD", cat("rm ", file)});
  }
  return out;
}

}  // namespace tool::doctor
