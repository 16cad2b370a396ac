#include "libcni/plugin/ipam.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "libcni/config/json.h"
#include "libcni/plugin/invoke.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/suite.h"

namespace cni {

namespace {

Outcome run(const Request& request, const std::string& file, Command command) {
  Executable plugin{.file = file, .env = current_environment()};
  for (const auto& [name, value] : request.env) plugin.env.insert_or_assign(name, value);
  plugin.env.insert_or_assign("CNI_COMMAND", std::string(str(command)));
  plugin.env.insert_or_assign(kIpamCall, "1");
  if (command == Command::kVersion) plugin.env.insert_or_assign(Repair::kAsk, "1");
  return execute(plugin, request.input);
}

// The request that the delegate would read from its environment and stdin.
Request as_delegate(const Request& request, Command command) {
  Request out = request;
  out.command = command;
  out.env.insert_or_assign("CNI_COMMAND", std::string(str(command)));
  return out;
}

void forward_stderr(const Outcome& outcome) {
  if (!outcome.err.empty()) {
    std::string text = outcome.err;
    if (text.back() == '\n') text.pop_back();
    note(text);
  }
}

bool is_removal(Command command) {
  return command == Command::kDel || command == Command::kGc || command == Command::kReclaim;
}

// Whether an ADD may have called a plugin that is not there now: not if no plugin can have the
// name, and not if the runtime, which knows results (spec 1.1: DEL since 0.4.0), knows none.
bool may_have_been_called(const Request& request, const std::string& type) {
  if (!is_plugin_name(type)) return false;
  return request.command != Command::kDel || request.version < Version::k0_4_0 ||
         request.reader()["prevResult"].present();
}

// Empty for what no ADD can have called.
std::string find_ipam_to_remove(const Request& request, const std::string& type) {
  std::string file;
  try {
    file = find_plugin(type, request.path, "ipam.type");
    require_ipam(type, file);
    return file;
  } catch (const Error& e) {
    const bool is_missing = file.empty();
    if (e.code() != Code::kInvalidConfig) throw;
    if (is_missing && may_have_been_called(request, type)) throw;
    note(cat(e.what(), "; nothing is released, as no ADD has called it"));
    return {};
  }
}

// Another one would not look, but remove.
bool can_look(const Request& request, const std::string& file) {
  const Outcome outcome = run(request, file, Command::kVersion);
  if (!outcome.ok()) return false;
  const auto doc = nlohmann::json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
  const auto verbs = doc.is_object() ? doc.find(Repair::kVerbsKey) : doc.end();
  return verbs != doc.end() && verbs->is_array() &&
         std::find(verbs->begin(), verbs->end(), str(Command::kGc)) != verbs->end();
}

// An object, or null.
nlohmann::json result_of(const std::string& type, const std::string& printed) {
  const auto refuse = [&](std::string_view why) {
    return Error(Code::kDecodingFailure,
                 cat("IPAM plugin '", type, "' printed no JSON result", why), printed);
  };
  nlohmann::json doc;
  try {
    doc = parse_json(printed, "it");
  } catch (const Error& e) {
    throw refuse(cat(": ", e.what()));
  }
  if (!doc.is_null() && !doc.is_object()) throw refuse("");
  return doc;
}

// The result that ADD printed. \throws Error where it cannot be read.
Result read_result(const Request& request, const std::string& type, const Outcome& outcome) {
  if (!outcome.ok()) throw error_from(type, outcome);
  const auto doc = result_of(type, outcome.out);
  if (doc.is_null()) return {};  // as the reference: "null" is an empty result
  std::string text;
  Reader(doc).into("cniVersion", text);
  const auto version = text.empty() ? request.version : version_from(text);
  if (!version) {
    throw Error(Code::kIncompatibleVersion,
                cat("IPAM plugin '", type, "' answered with unknown cniVersion \"", text, "\""));
  }
  return during(cat("result of IPAM plugin '", type, "'"),
                [&] { return result_from(doc, *version); });
}

}  // namespace

std::string ipam_type(const Request& request) try {
  std::string type;
  request.reader()["ipam"].into("type", type);
  return type;
} catch (const Error& e) {
  if (!is_removal(request.command)) throw;
  note(cat(e.what(), "; no IPAM plugin is called, as no ADD has called one"));
  return {};
}

std::string find_ipam(const Request& request, const std::string& type) {
  std::string file = find_plugin(type, request.path, "ipam.type");
  require_ipam(type, file);
  return file;
}

Result ipam_add(const Request& request, const std::string& type) {
  const std::string file = find_ipam(request, type);
  const Phase phase("ipam");
  if (const Plugin* const plugin = linked_plugin(type, file)) {
    return call(*plugin, as_delegate(request, Command::kAdd));  // it rolls itself back
  }
  std::optional<Error> refusal;
  try {
    const Outcome outcome = run(request, file, Command::kAdd);
    forward_stderr(outcome);
    if (!outcome.ok()) refusal = error_object_of(outcome);
    if (!refusal) return read_result(request, type, outcome);
  } catch (const netlink::Error&) {  // it could not be run
    throw;
  } catch (...) {     // no answer, or one that cannot be read: it may have made a reservation
    BestEffort each;  // its failure would hide the one that matters
    each("release", [&] { ipam_forward(request, type, Command::kDel); });
    throw;
  }
  // This ADD made nothing. An earlier ADD of the attachment may live: its lease stays.
  throw Error(*refusal);
}

void ipam_forward(const Request& request, const std::string& type, Command command) {
  if (type.empty()) return;
  const Phase phase("ipam");
  const std::string file =
      is_removal(command) ? find_ipam_to_remove(request, type) : find_ipam(request, type);
  if (file.empty()) return;
  if (const Plugin* const plugin = linked_plugin(type, file)) {
    call(*plugin, as_delegate(request, command));
    return;
  }
  const Outcome outcome = run(request, file, command);
  forward_stderr(outcome);
  if (!outcome.ok()) throw error_from(type, outcome);
}

void ipam_collect(const Request& request, const std::string& type, Collect& collect) {
  if (!collect.only_looks()) return ipam_forward(request, type, Command::kGc);
  const std::string file = type.empty() ? "" : find_ipam_to_remove(request, type);
  if (file.empty()) return;
  if (const Plugin* const plugin = linked_plugin(type, file)) {
    return collect.add(cni::collect(*plugin, as_delegate(request, Command::kGc)));
  }
  if (!can_look(request, file)) return;
  const Outcome outcome = run(request, file, Command::kGc);
  if (!outcome.ok()) throw error_from(type, outcome);
  collect.add(leftovers_in(outcome.out));
}

}  // namespace cni
