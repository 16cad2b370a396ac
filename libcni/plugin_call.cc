#include "libcni/plugin_call.h"

#include "libcni/json.h"
#include "libcni/log.h"
#include "libcni/repair.h"
#include "libcni/undo.h"

namespace cni {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

std::string_view word_for(Command command) {
  switch (command) {
    case Command::kAdd:
      return "add";
    case Command::kDel:
      return "delete";
    case Command::kCheck:
      return "check";
    case Command::kGc:
      return "gc";
    case Command::kStatus:
      return "status";
    case Command::kVersion:
      return "version";
    case Command::kRepair:
      return "repair";
  }
  return "?";
}

// In the reference's words, by which people search.
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
    return fn();
  } catch (const Error& e) {
    throw failure(plugin, command, e);
  } catch (const netlink::Error& e) {
    throw failure(plugin, command, Error(code_of(e), e.what()));
  }
}

std::string joined(const Args& args) {
  std::string out;
  for (const auto& [key, value] : args) out += cat(out.empty() ? "" : ";", key, "=", value);
  return out;
}

std::string joined(const std::vector<std::string>& path) {
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

void pass_on(const std::string& text) {
  if (!text.empty()) note(text.ends_with('\n') ? text.substr(0, text.size() - 1) : text);
}

// A plugin of 0.1.0 does not know the command; one of 0.2.0 may leave out the list.
std::vector<std::string> versions_in(const json& doc) {
  const Reader root(doc, Code::kDecodingFailure);
  const std::string own = root["cniVersion"].as_string();
  std::vector<std::string> out;
  root.into("supportedVersions", out);
  if (out.empty() && own == "0.2.0") out = {"0.1.0", "0.2.0"};
  if (out.empty()) root["supportedVersions"].fail("expected a list of versions");
  return out;
}

// What is anything else than a list of texts is no announcement of ours.
std::vector<std::string> verbs_in(const json& doc) {
  std::vector<std::string> out;
  const auto found = doc.find(Repair::kVerbsKey);
  if (found == doc.end() || !found->is_array()) return out;
  for (const json& one : *found) {
    if (one.is_string()) out.push_back(one.get<std::string>());
  }
  return out;
}

// Complains about what is no result. version is the list's, and becomes the result's own if it has
// one. null is an empty result, as in the reference.
void require_result(const json& doc, std::string& version) {
  if (doc.is_null()) return;
  if (!doc.is_object()) throw Error(Code::kDecodingFailure, "it is not a JSON object");
  std::string own;
  Reader(doc, Code::kDecodingFailure).into("cniVersion", own);
  if (!own.empty()) version = own;
  const auto known = version_from(version);
  if (!known) {
    throw Error(Code::kIncompatibleVersion,
                cat("unsupported CNI result version \"", version, "\""));
  }
  result_from(doc, *known);
}

}  // namespace

Env environment_for(const RuntimeOptions& options, Command command, const Target* target) {
  const Target nobody{.container_id = "", .netns = "", .ifname = ""};
  Env env = options.env;
  set_variables(env, command, target == nullptr ? nobody : *target, joined(options.path));
  return env;
}

std::string PluginCaller::input(const PluginConf& plugin, const Call& call) const {
  json conf = plugin.conf;
  conf["name"] = list_.name;
  conf["cniVersion"] = list_.version;
  if (call.target != nullptr) {
    const json wanted = declared(plugin, call.target->capabilities);
    if (!wanted.empty()) conf["runtimeConfig"] = wanted;
  }
  if (!call.prev_result.is_null()) conf["prevResult"] = call.prev_result;
  if (call.command == Command::kGc) {
    conf["cni.dev/valid-attachments"] = call.valid_attachments;
    conf["cni.dev/attachments"] = call.valid_attachments;  // as libcni spelled it before the spec
  }
  if (call.only_look) conf[Repair::kLookKey] = true;
  return conf.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string PluginCaller::run(const PluginConf& plugin, Command command, const Program& program,
                              const std::string& input) const {
  const LogEntry entry{.kind = "call",
                       .plugin = plugin.type,
                       .env = program.env,
                       .network = list_.name,
                       .cni_version = list_.version};
  return logged(entry, [&] { return run_unlogged(plugin, command, program, input); });
}

std::string PluginCaller::run_unlogged(const PluginConf& plugin, Command command,
                                       const Program& program, const std::string& input) const {
  Outcome outcome;
  std::optional<Error> error;
  const auto start = Clock::now();
  try {
    outcome = execute(program, input, options_.limit);
    if (!outcome.ok()) error = error_from(plugin.type, outcome);
  } catch (const Error& e) {
    error = e;
  } catch (const netlink::Error& e) {
    error = Error(code_of(e), e.what());
  }
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
  // Where there is no stdout the text on stderr is the error.
  if (outcome.ok() || !outcome.out.empty()) pass_on(outcome.err);
  if (options_.observer) {
    options_.observer(
        {command, plugin, program.file, input, outcome, error ? &*error : nullptr, took});
  }
  if (error) throw *error;
  return std::move(outcome.out);
}

std::string PluginCaller::call(const PluginConf& plugin, const Call& call) const {
  return naming(plugin, call.command, [&] {
    const Program program{.file = find_plugin(plugin.type, options_.path),
                          .env = environment_for(options_, call.command, call.target),
                          .own_group = true,
                          .stop_fd = options_.stop_fd};
    return run(plugin, call.command, program, input(plugin, call));
  });
}

nlohmann::ordered_json PluginCaller::result_in(const std::string& printed) const {
  std::string version = list_.version.empty() ? "0.1.0" : list_.version;
  try {
    if (printed.find_first_not_of(" \t\r\n") == std::string::npos) {
      throw Error(Code::kDecodingFailure, "it printed nothing");
    }
    require_result(parse_json(printed, "it"), version);
  } catch (const Error& e) {
    throw Error(e.code(), cat("read its result: ", e.what()), printed);
  }
  auto out = nlohmann::ordered_json::parse(printed);  // with its keys in the order it gave them
  if (!out.is_object()) out = nlohmann::ordered_json::object();
  out["cniVersion"] = version;
  return out;
}

nlohmann::ordered_json PluginCaller::add(const PluginConf& plugin, const Call& call) const {
  const std::string printed = this->call(plugin, call);
  return naming(plugin, call.command, [&] { return result_in(printed); });
}

PluginCaller::Repaired PluginCaller::repair(const PluginConf& plugin, const Call& call) const {
  const std::string printed = this->call(plugin, call);
  return naming(plugin, call.command, [&]() -> Repaired {
    const auto doc = nlohmann::ordered_json::parse(printed, nullptr, false);
    if (!doc.is_object() || !doc.contains("result")) {
      throw Error(Code::kDecodingFailure, "read its answer: it has no result", printed);
    }
    Repaired out;
    const json answer = doc;
    Reader(answer, Code::kDecodingFailure).into("found", out.found);
    out.result = result_in(doc["result"].dump());
    return out;
  });
}

void PluginCaller::require_plugins(Command command) const {
  for (const PluginConf& plugin : list_.plugins) {
    naming(plugin, command, [&] { find_plugin(plugin.type, options_.path); });
  }
}

Runtime::PluginVersions PluginCaller::versions(const PluginConf& plugin) const {
  return naming(plugin, Command::kVersion, [&]() -> Runtime::PluginVersions {
    // Plugins of old check these variables before they look at the command.
    const Target dummy{.container_id = "", .netns = "dummy", .ifname = "dummy"};
    Program program{.file = find_plugin(plugin.type, options_.path),
                    .env = options_.env,
                    .own_group = true,
                    .stop_fd = options_.stop_fd};
    set_variables(program.env, Command::kVersion, dummy, "dummy");
    program.env.insert_or_assign(Repair::kAsk, "1");
    try {
      const json doc = parse_json(
          run(plugin, Command::kVersion, program, cat(R"({"cniVersion":")", str(kNewest), R"("})")),
          "what it printed");
      return {plugin.type, program.file, versions_in(doc), verbs_in(doc)};
    } catch (const Error& e) {
      if (e.what() != std::string_view("unknown CNI_COMMAND: VERSION")) throw;
      return {plugin.type, program.file, {"0.1.0"}, {}};
    }
  });
}

}  // namespace cni
