#include "libcni/plugin/ipam.h"

#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "libcni/plugin/delegate.h"
#include "libcni/plugin/suite.h"

namespace cni {

namespace {

// Whatever program has taken the name of host-local: as an interface plugin it would call
// host-local, which is itself, without end. Those of this project know it by kIpamCall.
Delegate delegate_of(const std::string& type, const std::string& file) {
  return {.type = type,
          .file = file,
          .linked = linked_plugin(type, file),
          .role = "IPAM plugin",
          .mark = kIpamCall,
          .finds_none = calls_no_plugin(type)};
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
  const Delegate ipam = delegate_of(type, find_ipam(request, type));
  const Phase phase("ipam");
  if (ipam.linked != nullptr) return delegate_add(ipam, request);  // it rolls itself back
  std::optional<Error> refusal;
  try {
    const Outcome outcome = run_delegate(ipam, request, Command::kAdd);
    if (!outcome.ok()) refusal = error_object_of(outcome);
    if (!refusal) return result_of(ipam, request, outcome);
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
  if (!file.empty()) delegate_forward(delegate_of(type, file), request, command);
}

bool ipam_repair(const Request& request, const std::string& type, Repair& repair) {
  if (type.empty()) return true;
  const Phase phase("ipam");
  const Delegate ipam = delegate_of(type, find_ipam(request, type));
  if (!has_verb(ipam, request, Command::kRepair)) return true;
  const std::size_t before = repair.found().size();
  delegate_repair(ipam, request, Command::kRepair, repair);
  return !repair.only_looks() || repair.found().size() == before;
}

void ipam_collect(const Request& request, const std::string& type, Collect& collect) {
  if (!collect.only_looks() && !collect.removes_named())
    return ipam_forward(request, type, Command::kGc);
  const std::string file = type.empty() ? "" : find_ipam_to_remove(request, type);
  if (!file.empty()) delegate_collect(delegate_of(type, file), request, collect);
}

}  // namespace cni
