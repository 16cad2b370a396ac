#include "libcni/runtime/plugin_call.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libcni/config/nearest.h"
#include "libcni/plugin/collect.h"
#include "libcni/plugin/log.h"

namespace cni {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

std::string word_for(Command command) {
  return command == Command::kDel ? "delete" : lower(str(command));
}

// The message is libcni's of the reference, by which people search.
Error failure(const PluginConf& plugin, Command command, const Error& e) {
  const std::string name = plugin.own_name();
  return {e.code(),
          cat("plugin type=\"", plugin.type, "\"", name.empty() ? "" : cat(" name=\"", name, "\""),
              " failed (", word_for(command), "): ", e.what()),
          e.details()};
}

template <class Fn>
auto naming(const PluginConf& plugin, Command command, Fn&& fn) {
  try {
    return as_error(std::forward<Fn>(fn));
  } catch (const Error& e) {
    throw failure(plugin, command, e);
  }
}

std::string with_colons(const std::vector<std::string>& path) {
  std::string out;
  for (const std::string& one : path) out += cat(out.empty() ? "" : ":", one);
  return out;
}

// All six variables, empty where there is nothing to say: one of the caller's own must not show.
void set_variables(Env& env, Command command, const Target& target, std::string path) {
  env.insert_or_assign("CNI_COMMAND", std::string(str(command)));
  env.insert_or_assign("CNI_CONTAINERID", target.container_id);
  env.insert_or_assign("CNI_NETNS", target.netns);
  env.insert_or_assign("CNI_ARGS", joined(target.args));
  env.insert_or_assign("CNI_IFNAME", target.ifname);
  env.insert_or_assign("CNI_PATH", std::move(path));
}

// The capability arguments that the plugin declares; the others are not for it.
json declared(const PluginConf& plugin, const json& arguments) {
  json out = json::object();
  for (const std::string& name : plugin.capabilities()) {
    const auto given = arguments.find(name);
    if (given != arguments.end()) out[name] = *given;
  }
  return out;
}

}  // namespace

// The path of the plugin's type in the list.
std::string PluginCaller::key_of(const PluginConf& plugin) const {
  std::size_t index = 0;
  for (const PluginConf& one : list_.plugins) {
    if (&one == &plugin) return cat("plugins[", index, "].type");
    ++index;
  }
  return "type";
}

Env environment_for(const RuntimeOptions& options, Command command, const Target* target) {
  const Target nobody{.container_id = "", .netns = "", .ifname = ""};
  Env env = options.env;
  set_variables(env, command, target == nullptr ? nobody : *target, with_colons(options.path));
  return env;
}

std::string PluginCaller::input(const PluginConf& plugin, const Call& call) const {
  json conf = *plugin.conf;
  conf["name"] = list_.name;
  conf["cniVersion"] = list_.version;
  if (call.target != nullptr) {
    const json wanted = declared(plugin, call.target->capabilities);
    if (!wanted.empty()) conf["runtimeConfig"] = wanted;
  }
  if (!call.prev_result->is_null()) conf["prevResult"] = *call.prev_result;
  if (!call.remove->is_null()) {
    conf[Collect::kRemoveKey] = *call.remove;
  } else if (call.command == Command::kGc) {
    conf["cni.dev/valid-attachments"] = *call.valid_attachments;
    conf["cni.dev/attachments"] = *call.valid_attachments;  // as libcni spelled it before the spec
  }
  if (call.form == Form::kReference) conf[Repair::kFormKey] = Repair::kToReference;
  if (call.only_look) {
    conf[Repair::kLookKey] = true;
    conf.erase(kLogKey);  // nothing is written to
  }
  return conf.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string PluginCaller::run(const PluginConf& plugin, Command command, const Executable& program,
                              const std::string& input) const {
  const LogEntry entry{.kind = "call",
                       .plugin = plugin.type,
                       .env = program.env,
                       .network = list_.name,
                       .cni_version = list_.version};
  return logged(entry, [&] { return run_unlogged(plugin, command, program, input); });
}

std::string PluginCaller::run_unlogged(const PluginConf& plugin, Command command,
                                       const Executable& program, const std::string& input) const {
  Outcome outcome;
  std::optional<Error> error;
  const auto start = Clock::now();
  try {
    outcome = as_error([&] { return execute(program, input, options_.limit); });
    if (!outcome.ok()) error = error_from(plugin.type, outcome);
  } catch (const Error& e) {
    error = e;
  }
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
  // The text on stderr is the error itself if there is no stdout.
  if (options_.pass_stderr && !outcome.err.empty() && (outcome.ok() || !outcome.out.empty())) {
    const std::string_view text = outcome.err;
    options_.pass_stderr(text.ends_with('\n') ? text.substr(0, text.size() - 1) : text);
  }
  if (options_.observer) {
    options_.observer(
        {command, plugin, program.file, input, outcome, error ? &*error : nullptr, took});
  }
  if (error) throw *error;
  return std::move(outcome.out);
}

std::string PluginCaller::call(const PluginConf& plugin, const Call& call) const {
  return naming(plugin, call.command, [&] {
    const Executable program{.file = find_plugin(plugin.type, options_.path, key_of(plugin)),
                             .env = environment_for(options_, call.command, call.target),
                             .own_group = true,
                             .stop_fd = options_.stop_fd};
    return run(plugin, call.command, program, input(plugin, call));
  });
}

nlohmann::ordered_json PluginCaller::add(const PluginConf& plugin, const Call& call) const {
  const std::string printed = this->call(plugin, call);
  return naming(plugin, call.command, [&] { return result_in(printed, list_.version); });
}

RepairAnswer PluginCaller::repair(const PluginConf& plugin, const Call& call) const {
  const std::string printed = this->call(plugin, call);
  return naming(plugin, call.command, [&] { return repair_in(printed, list_.version); });
}

std::vector<std::string> PluginCaller::found_by(const PluginConf& plugin, const Call& call) const {
  const std::string printed = this->call(plugin, call);
  return naming(plugin, call.command, [&] { return found_in(printed); });
}

bool PluginCaller::has_plugin(const PluginConf& plugin) const noexcept try {
  return !find_plugin(plugin.type, options_.path, plugin.type).empty();
} catch (const std::exception&) {
  return false;
}

void PluginCaller::require_plugins(Command command) const {
  for (const PluginConf& plugin : list_.plugins) {
    naming(plugin, command, [&] { find_plugin(plugin.type, options_.path, key_of(plugin)); });
  }
}

Runtime::PluginVersions PluginCaller::versions(const PluginConf& plugin) const {
  return naming(plugin, Command::kVersion, [&]() -> Runtime::PluginVersions {
    // Plugins of old check these variables before they look at the command.
    const Target dummy{.container_id = "", .netns = "dummy", .ifname = "dummy"};
    Executable program{.file = find_plugin(plugin.type, options_.path, key_of(plugin)),
                       .env = options_.env,
                       .own_group = true,
                       .stop_fd = options_.stop_fd};
    set_variables(program.env, Command::kVersion, dummy, "dummy");
    program.env.insert_or_assign(Repair::kAsk, "1");
    try {
      VersionAnswer answer = versions_in(run(plugin, Command::kVersion, program,
                                             cat(R"({"cniVersion":")", str(kNewest), R"("})")));
      return {plugin.type, program.file, std::move(answer.versions), std::move(answer.verbs)};
    } catch (const Error& e) {
      if (e.what() != std::string_view("unknown CNI_COMMAND: VERSION")) throw;
      return {plugin.type, program.file, {"0.1.0"}, {}};
    }
  });
}

bool PluginCaller::has_verb(const PluginConf& plugin, Command verb) const {
  const auto has = [verb](const std::vector<std::string>& verbs) {
    return std::ranges::find(verbs, str(verb)) != verbs.end();
  };
  KnownVerbs* const known = options_.known_verbs.get();
  if (known == nullptr) return has(versions(plugin).verbs);
  const std::scoped_lock lock(known->mutex);
  const auto found = known->of.find(plugin.type);
  if (found != known->of.end()) return has(found->second);
  return has(known->of[plugin.type] = versions(plugin).verbs);
}

}  // namespace cni
