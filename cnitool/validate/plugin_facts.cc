#include "cnitool/validate/plugin_facts.h"

#include <nlohmann/json.hpp>

#include "cnitool/known_plugins.h"
#include "libcni/common/dir.h"
#include "libcni/config/json.h"
#include "libcni/config/nearest.h"
#include "libcni/plugin/invoke.h"
#include "libcni/plugin/plugin.h"
#include "libcni/runtime/runtime.h"

namespace tool {

namespace {

using nlohmann::json;

// The limit is for a program that only prints constant text.
constexpr std::chrono::seconds kLimit{10};

// A schema is an object that describes properties; a plugin that knows no options prints versions.
json schema_in(const std::string& text) {
  json doc = cni::try_parse_json(text);
  return doc.is_object() && doc.contains("properties") ? doc : json();
}

Verdict ask(const std::string& type, cni::Executable parser, const json& conf,
            const PluginUse& call) {
  if (call.is_ipam) parser.env.emplace(cni::kIpamCall, "1");
  if (!call.args.empty()) parser.env.emplace("CNI_ARGS", call.args);
  const std::string input = conf.dump(-1, ' ', false, json::error_handler_t::replace);
  const cni::Outcome outcome = cni::execute(parser, input, kLimit);
  const json said = cni::try_parse_json(outcome.out);
  Verdict out;
  if (!said.is_object()) return out;
  if (const auto list = said.find("findings"); list != said.end()) {
    out.complaints = cni::complaints_in(*list);
  }
  if (!outcome.ok() && said.contains("code")) out.refusal = cni::error_from(type, outcome);
  return out;
}

}  // namespace

Plugins::Plugins(std::string path, cni::Env env)
    : path_(cni::split_path(path)), env_(std::move(env)) {
  std::erase_if(env_, [](const auto& one) { return one.first.starts_with("CNI_"); });
  env_.insert_or_assign("CNI_COMMAND", "VERSION");
  env_.insert_or_assign("CNI_PATH", std::move(path));
}

const PluginFacts& Plugins::of(const std::string& type) {
  const auto known = known_.find(type);
  return known != known_.end() ? known->second : known_.emplace(type, ask(type)).first->second;
}

PluginFacts Plugins::ask(const std::string& type) const {
  PluginFacts out;
  try {
    out.file = cni::find_plugin(type, path_);
    const cni::Runtime runtime({.path = path_, .env = env_, .limit = kLimit});
    cni::NetworkList list;
    list.plugins = {{.type = type, .conf = json::object()}};
    out.versions = runtime.versions(list).at(0).versions;
    const cni::Outcome outcome =
        cni::execute({.file = out.file, .arguments = {"--schema"}, .env = env_, .own_group = true},
                     "{}", kLimit);
    if (outcome.ok()) out.schema = schema_in(outcome.out);
    if (!out.schema->is_null()) {
      const cni::Executable parser{
          .file = out.file, .arguments = {"--validate"}, .env = env_, .own_group = true};
      out.judge = [type, parser](const json& conf, const PluginUse& call) {
        return tool::ask(type, parser, conf, call);
      };
    }
  } catch (const std::exception& e) {
    out.failure = e.what();
  }
  return out;
}

cni::Facts Plugins::facts_of(const std::string& type) {
  if (type.empty()) return {};
  return cni::facts_in(of(type).schema).value_or(tool::facts_of(type));
}

Verdict Plugins::judge(const std::string& type, const json& conf, const PluginUse& call) {
  const PluginFacts& facts = of(type);
  return facts.judge ? facts.judge(conf, call) : Verdict{};
}

std::string Plugins::similar(const std::string& type) const {
  std::vector<std::string> names;
  for (const std::string& dir : path_) {
    for (std::string& name : cni::names_in(dir)) names.push_back(std::move(name));
  }
  return cni::nearest(type, names);
}

}  // namespace tool
