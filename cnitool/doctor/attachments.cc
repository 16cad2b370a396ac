#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/places.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/output.h"
#include "cnitool/pool.h"
#include "cnitool/validate/plugin_facts.h"
#include "libcni/plugin/log.h"
#include "libcni/runtime/operation_lock.h"
#include "libcni/runtime/runtime.h"

namespace tool::doctor {

namespace {

using nlohmann::json;

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

// A name for the namespace that a process of the pod has. To look from the mount namespace of the
// first process is harmless where there is none.
std::string naming_of(const std::vector<const AttachmentState*>& all) {
  std::vector<std::string> out;
  std::set<std::string> named;
  for (const AttachmentState* one : all) {
    if (one->seen_at.empty() || !named.insert(one->netns).second) continue;
    const std::string path = quoted(one->netns);
    out.push_back(cat("touch ", path, " && mount --bind ", one->seen_at, " ", path));
  }
  return out.empty() ? "nsenter -t 1 -m cnitool doctor" : joined(out, " && ");
}

// The input of a plugin's ADD. Plugins after the first get an empty result: theirs is unknown.
json input_of(const cni::CachedAttachment& one, const cni::NetworkList& list,
              const cni::PluginConf& plugin) {
  json conf = *plugin.conf;
  conf["name"] = list.name;
  conf["cniVersion"] = list.version;
  json given = json::object();
  for (const std::string& name : plugin.capabilities()) {
    const auto found = one.capabilities->find(name);
    if (found != one.capabilities->end()) given[name] = *found;
  }
  if (!given.empty()) conf["runtimeConfig"] = given;
  if (&plugin != &list.plugins.front()) conf["prevResult"] = {{"cniVersion", list.version}};
  conf.erase(cni::kLogKey);  // what is looked at is not written to
  return conf;
}

/// Asks plugins why they refuse an attachment.
class Judge {
 public:
  Judge(const std::string& path, const cni::Env& env) : plugins_(path, env) {}

  // Equal configs are judged once: a pod that is tried again and again leaves many.
  const std::string& refusal_of(const cni::CachedAttachment& one) {
    const auto key = cat(cni::joined(one.args), "\n", one.capabilities->dump(), "\n", one.config);
    const auto known = known_.find(key);
    return known != known_.end() ? known->second : known_.emplace(key, ask(one)).first->second;
  }

 private:
  std::string ask(const cni::CachedAttachment& one) {
    try {
      const cni::NetworkList list = cni::list_from(one.config);
      for (const cni::PluginConf& plugin : list.plugins) {
        const json input = input_of(one, list, plugin);
        const std::string ipam = ipam_type_of(plugin);
        std::string refusal = ask(plugin.type, input, {.args = cni::joined(one.args)});
        if (refusal.empty() && !ipam.empty()) {
          refusal = ask(ipam, input, {.is_ipam = true, .args = cni::joined(one.args)});
        }
        if (!refusal.empty()) return cat("plugin type=\"", plugin.type, "\": ", refusal);
      }
    } catch (const cni::Error& e) {
      return text_of(e);
    } catch (const netlink::Error& e) {
      return e.what();
    }
    return {};
  }

  std::string ask(const std::string& type, const json& input, const PluginUse& call) {
    const PluginFacts& facts = plugins_.of(type);
    if (facts.file.empty()) return facts.failure;
    const Verdict verdict = plugins_.judge(type, input, call);
    return verdict.refusal ? text_of(*verdict.refusal) : "";
  }

  Plugins plugins_;
  std::map<std::string, std::string> known_;
};

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

Findings check_namespaces(const Node& node) {
  std::map<std::string, std::vector<const AttachmentState*>> found;
  for (const AttachmentState& one : node.attachments) {
    if (one.lost_its_name && node.which.has(one.key)) found[one.key.network].push_back(&one);
  }
  Findings out;
  for (const auto& [network, all] : found) {
    std::vector<std::string> names;
    for (const AttachmentState* one : all) names.push_back(name_of(node, one->key));
    const bool is_one = all.size() == 1;
    out.push_back({Level::kError,
                   cat("network '", network, "' has ", counted(all.size(), "attachment"),
                       is_one ? " whose pod lives, but not at the path of its namespace: "
                              : " whose pods live, but not at the paths of their namespaces: ",
                       some_of(names)),
                   "somebody unmounted it, or the runtime has another mount namespace: CHECK and "
                   "REPAIR do not reach the pod from here, and DEL undoes only what is on the node",
                   naming_of(all),
                   {network}});
  }
  return out;
}

void look_at_unfinished(Node& node, const std::string& path, const cni::Env& env) {
  const cni::Cache cache(node.cache_dir);
  cni::Env quiet = env;
  quiet.erase(cni::kLogVariable);
  Judge judge(path, quiet);
  for (AttachmentState& one : node.attachments) {
    if (one.is_finished) continue;
    one.is_running = cni::OperationLock::is_held(cache, one.key.container_id);
    if (one.is_running == true) continue;
    // Read again, because its ADD may have ended since the cache was listed.
    const auto now = cache.find(one.key);
    if (!now || now->stamp != one.stamp) {
      one.is_running = true;
    } else {
      one.refusal = judge.refusal_of(*now);
    }
  }
}

}  // namespace tool::doctor
