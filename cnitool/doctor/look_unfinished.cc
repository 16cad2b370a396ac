#include <nlohmann/json.hpp>

#include "cnitool/doctor/look.h"
#include "cnitool/output.h"
#include "cnitool/validate/plugin_facts.h"
#include "libcni/plugin/log.h"
#include "libcni/runtime/operation_lock.h"
#include "libcni/runtime/runtime.h"

namespace tool::doctor {

namespace {

using nlohmann::json;

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

  std::string ask(const std::string& type, const json& input, const Call& call) {
    const PluginFacts& facts = plugins_.of(type);
    if (facts.file.empty()) return facts.failure;
    const Verdict verdict = plugins_.judge(type, input, call);
    return verdict.refusal ? text_of(*verdict.refusal) : "";
  }

  Plugins plugins_;
  std::map<std::string, std::string> known_;
};

}  // namespace

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
