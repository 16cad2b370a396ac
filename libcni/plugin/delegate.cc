#include "libcni/plugin/delegate.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libcni/common/undo.h"
#include "libcni/config/json.h"
#include "libcni/plugin/suite.h"

namespace cni {

namespace {

Outcome run(const Delegate& delegate, const Request& request, Command command) {
  Executable plugin{.file = delegate.file, .env = current_environment()};
  for (const auto& [name, value] : request.env) plugin.env.insert_or_assign(name, value);
  plugin.env.insert_or_assign("CNI_COMMAND", std::string(str(command)));
  if (delegate.mark != nullptr) plugin.env.insert_or_assign(delegate.mark, "1");
  if (delegate.finds_none) plugin.env.insert_or_assign("CNI_PATH", "/none");
  if (command == Command::kVersion) plugin.env.insert_or_assign(Repair::kAsk, "1");
  return execute(plugin, request.input, delegate.limit);
}

void note_stderr(const Outcome& outcome) {
  if (outcome.err.empty()) return;
  std::string text = outcome.err;
  if (text.back() == '\n') text.pop_back();
  note(text);
}

// Whether the answer to VERSION announces a verb beyond the spec.
bool announces(const Delegate& delegate, const Request& request, Command command) {
  const Outcome outcome = run(delegate, request, Command::kVersion);
  if (!outcome.ok()) return false;
  const auto doc = nlohmann::json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  const auto verbs = doc.is_object() ? doc.find(Repair::kVerbsKey) : doc.end();
  return verbs != doc.end() && verbs->is_array() &&
         std::find(verbs->begin(), verbs->end(), str(command)) != verbs->end();
}

Error unreadable(const Delegate& delegate, const std::string& printed, std::string_view why = {}) {
  return {Code::kDecodingFailure,
          cat(delegate.role, " '", delegate.type, "' printed no JSON result", why), printed};
}

// An object, or null.
nlohmann::json document_of(const Delegate& delegate, const std::string& printed) {
  nlohmann::json doc;
  try {
    doc = parse_json(printed, "it");
  } catch (const Error& e) {
    throw unreadable(delegate, printed, cat(": ", e.what()));
  }
  if (!doc.is_null() && !doc.is_object()) throw unreadable(delegate, printed);
  return doc;
}

Result result_in(const Delegate& delegate, const Request& request, const nlohmann::json& doc) {
  if (doc.is_null()) return {};  // as the reference: "null" is an empty result
  std::string text;
  Reader(doc).into("cniVersion", text);
  const auto version = text.empty() ? request.version : version_from(text);
  if (!version) {
    throw Error(Code::kIncompatibleVersion,
                cat(delegate.role, " '", delegate.type, "' answered with unknown cniVersion \"",
                    text, "\""));
  }
  return during(cat("result of ", delegate.role, " '", delegate.type, "'"),
                [&] { return result_from(doc, *version); });
}

}  // namespace

Delegate Delegate::find(const Request& request, const std::string& type, std::string_view key) {
  Delegate out{.type = type, .file = find_plugin(type, request.path, key)};
  out.linked = own_plugin(type, out.file);
  return out;
}

Request request_with(const Request& request, Command command, std::string config) {
  Request out;
  Env env = request.env;
  env.insert_or_assign("CNI_COMMAND", std::string(str(command)));
  out.read_environment(env);
  out.read_config(std::move(config));
  return out;
}

Request request_with(const Request& request, Command command) {
  Request out = request;
  out.command = command;
  out.env.insert_or_assign("CNI_COMMAND", std::string(str(command)));
  return out;
}

Outcome run_delegate(const Delegate& delegate, const Request& request, Command command) {
  Outcome outcome = run(delegate, request, command);
  note_stderr(outcome);
  return outcome;
}

Result result_of(const Delegate& delegate, const Request& request, const Outcome& outcome) {
  if (!outcome.ok()) throw error_from(delegate.type, outcome);
  return result_in(delegate, request, document_of(delegate, outcome.out));
}

Result delegate_add(const Delegate& delegate, const Request& request) {
  if (delegate.linked != nullptr) {
    return call(*delegate.linked, request_with(request, Command::kAdd));
  }
  return result_of(delegate, request, run_delegate(delegate, request, Command::kAdd));
}

void delegate_forward(const Delegate& delegate, const Request& request, Command command) {
  if (delegate.linked != nullptr) {
    call(*delegate.linked, request_with(request, command));
    return;
  }
  const Outcome outcome = run_delegate(delegate, request, command);
  if (!outcome.ok()) throw error_from(delegate.type, outcome);
}

// The names that a removal passes on are looked at again here: a delegate may see less of the node.
static Request request_to_collect(const Request& request, const Collect& collect) {
  if (!collect.removes_named()) return request_with(request, Command::kGc);
  nlohmann::json config = *request.conf;
  config[Collect::kRemoveKey] = collect.named();
  return request_with(request, Command::kGc, config.dump());
}

void delegate_collect(const Delegate& delegate, const Request& asked, Collect& collect) {
  if (!collect.only_looks() && !collect.removes_named()) {
    return delegate_forward(delegate, asked, Command::kGc);
  }
  const Request request = request_to_collect(asked, collect);
  if (delegate.linked != nullptr) return collect.add(cni::collect(*delegate.linked, request));
  // It would not look, but remove.
  if (!announces(delegate, request, Command::kGc)) return;
  const Outcome outcome = run(delegate, request, Command::kGc);
  if (!outcome.ok()) throw error_from(delegate.type, outcome);
  if (!outcome.out.empty()) collect.add(leftovers_in(outcome.out));
}

bool has_verb(const Delegate& delegate, const Request& request, Command command) {
  if (delegate.linked == nullptr) return announces(delegate, request, command);
  const Verbs& verbs = delegate.linked->verbs;
  if (command == Command::kRepair) return verbs.repair != nullptr;
  return (command == Command::kReclaim ? verbs.reclaim : verbs.migrate) != nullptr;
}

std::optional<Result> delegate_repair(const Delegate& delegate, const Request& request,
                                      Command command, Repair& repair) {
  if (delegate.linked != nullptr) {
    return call(*delegate.linked, request_with(request, command), repair);
  }
  const Outcome outcome = run_delegate(delegate, request, command);
  if (!outcome.ok()) throw error_from(delegate.type, outcome);
  const nlohmann::json answer = document_of(delegate, outcome.out);
  if (!answer.is_object()) throw unreadable(delegate, outcome.out);
  std::vector<std::string> found;
  Reader(answer, Code::kDecodingFailure).into("found", found);
  repair.add(found);
  const auto result = answer.find("result");
  if (result == answer.end()) return std::nullopt;
  return result_in(delegate, request, *result);
}

}  // namespace cni
