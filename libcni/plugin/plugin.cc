#include "libcni/plugin/plugin.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "libcni/config/complaints.h"
#include "libcni/config/misspelt.h"
#include "libcni/plugin/log.h"
#include "libcni/plugin/manual.h"
#include "netlink/types/fd.h"

namespace cni {

namespace {

// Names the verbs beyond the spec to those who ask for them.
std::string versions_json(const Plugin& plugin, const Env& env) {
  nlohmann::ordered_json out;
  out["cniVersion"] = str(kNewest);
  out["supportedVersions"] = nlohmann::ordered_json::array();
  for (const auto v : supported_versions()) out["supportedVersions"].push_back(v);
  if (!env.contains(Repair::kAsk)) return out.dump() + "\n";
  if (plugin.verbs.repair != nullptr) out[Repair::kVerbsKey].push_back(str(Command::kRepair));
  if (plugin.verbs.reclaim != nullptr) out[Repair::kVerbsKey].push_back(str(Command::kReclaim));
  if (plugin.verbs.migrate != nullptr) out[Repair::kVerbsKey].push_back(str(Command::kMigrate));
  if (plugin.verbs.gc != nullptr) out[Repair::kVerbsKey].push_back(str(Command::kGc));
  return out.dump() + "\n";
}

std::string text_of(const nlohmann::ordered_json& json) {
  return json.dump(4, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

void write_out(int out, const std::string& text) {
  try {
    netlink::write_all(out, text, "stdout");
  } catch (const netlink::Error& e) {
    throw Error(Code::kIoFailure, e.what());
  }
}

nlohmann::ordered_json error_object(Version version, const Error& e) {
  nlohmann::ordered_json out;
  out["cniVersion"] = str(version);
  out["code"] = static_cast<unsigned>(e.code());
  out["msg"] = e.what();
  if (!e.details().empty()) out["details"] = e.details();
  return out;
}

int fail(const Invocation& invocation, Version version, const Error& e) noexcept try {
  netlink::write_all(invocation.out, text_of(error_object(version, e)), "stdout");
  return 1;
} catch (const std::exception&) {
  note(e.what());  // stdout is lost: say it where it may be seen
  return 1;
}

void read(const Invocation& invocation, Request& request) {
  const Phase phase("read");
  request.read(invocation.env, invocation.in);
}

void add(const Plugin& plugin, const Request& request, int out) {
  Undo undo;
  const Result result = add(plugin, request, undo);
  const Phase phase("answer");
  write_out(out, text_of(to_json(result, request.version)));
  undo.commit();
}

bool only_looks(const Request& request) {
  bool only_look = false;
  request.reader().into(Repair::kLookKey, only_look);
  return only_look;
}

Form form_in(const Request& request) {
  std::string form;
  request.reader().into(Repair::kFormKey, form);
  return form == Repair::kToReference ? Form::kReference : Form::kOwn;
}

bool is_repair(Command command) {
  return command == Command::kRepair || command == Command::kReclaim ||
         command == Command::kMigrate;
}

// REPAIR, RECLAIM or MIGRATE, if the plugin has it.
void repair(const Plugin& plugin, const Request& request, int out) {
  Repair repair(only_looks(request), form_in(request));
  nlohmann::ordered_json answer;
  answer["cniVersion"] = str(request.version);
  const auto result = run_repair(plugin, request, repair);
  answer["found"] = repair.found();
  if (result) answer["result"] = to_json(*result, request.version);
  write_out(out, text_of(answer));
}

void serve(const Plugin& plugin, const Invocation& invocation, const Request& request) {
  if (request.command == Command::kVersion) {
    return write_out(invocation.out, versions_json(plugin, invocation.env));
  }
  if (invocation.env.contains(kIpamCall)) require_ipam(plugin);
  require_foreign_netns(request);  // before the verb, not after it
  if (request.command == Command::kAdd && plugin.verbs.add != nullptr) {
    return add(plugin, request, invocation.out);
  }
  if (is_repair(request.command)) return repair(plugin, request, invocation.out);
  if (request.command == Command::kGc && Collect::is_answered(request)) {
    return write_out(invocation.out, text_of(json_of(collect(plugin, request))));
  }
  dispatch(plugin, request);
}

// ADD's environment without a container.
Env for_no_container(const Env& env) {
  Env out{{"CNI_COMMAND", "ADD"},
          {"CNI_CONTAINERID", "none"},
          {"CNI_NETNS", "/none"},
          {"CNI_IFNAME", "eth0"},
          {"CNI_PATH", "/none"}};
  if (const auto args = env.find("CNI_ARGS"); args != env.end()) out.insert(*args);
  return out;
}

// Runs fn; failed tells of what it throws. The exit status.
template <class Fn, class Failed>
int reporting(const Plugin& plugin, Fn&& fn, Failed&& failed) noexcept {
  try {
    as_error(std::forward<Fn>(fn));
    return 0;
  } catch (const Error& e) {  // undo has already run
    if (!e.is_mistyped() || plugin.loading.empty()) return failed(e);
    return failed(Error(e.code(), cat(plugin.loading, ": ", e.what()), e.details()));
  }
}

int answer(const Plugin& plugin, int argc, char** argv) try {
  if (argc > 2) throw std::invalid_argument(cat("one option at a time, not '", argv[2], "' too"));
  if (argv[1] == std::string_view("--validate")) {
    return validate(plugin, {.env = environment_for_plugins()});
  }
  netlink::write_all(STDOUT_FILENO, answer_to(plugin, argv[1]), "stdout");
  return 0;
} catch (const std::invalid_argument& e) {
  note(cat(plugin.name, ": ", e.what()));
  return 2;
} catch (const std::exception& e) {
  note(cat(plugin.name, ": ", e.what()));
  return 1;
}

// Keeps stdout for the result: what was fd 1 is kept under another number, fd 1 becomes stderr.
// A descriptor of 0 to 2 that the caller left closed is pointed at /dev/null, so that no socket of
// ours gets its number. Without a stdout the Fd is empty and the write of the result fails.
netlink::Fd private_stdout() {
  netlink::Fd out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!out && errno != EBADF) return netlink::Fd(STDOUT_FILENO);  // unprotected, but there
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest free number is the one that open(2) gives, so each closed one gets its own.
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) < 0) break;
  }
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return out;
}

}  // namespace

std::string_view build_version() { return PATCHBAY_VERSION; }

bool is_ipam(const Plugin& plugin) noexcept {
  return plugin.manual != nullptr && plugin.manual->facts.has(Fact::kIpam);
}

void require_ipam(const Plugin& plugin) {
  if (is_ipam(plugin)) return;
  throw Error(Code::kInvalidConfig, cat("ipam.type: '", plugin.name, "' is not an IPAM plugin"),
              "IPAM plugins give addresses, as host-local, static and dhcp do");
}

std::vector<Leftover> collect(const Plugin& plugin, const Request& request) {
  if (plugin.verbs.gc == nullptr) return {};
  auto collect = Collect::from(request);
  if (!collect) return {};
  plugin.verbs.gc(request, *collect);
  return collect->found();
}

Result add(const Plugin& plugin, const Request& request, Undo& undo) {
  if (plugin.manual != nullptr) {
    for (const Complaint& one : misspelt_keys(*plugin.manual, request.conf)) {
      note(cat(plugin.name, ": ", one.path, ": ", one.what, ", ignored (did you mean ",
               one.suggestion, "?)"));
    }
  }
  return plugin.verbs.add(request, undo);
}

std::optional<Result> run_repair(const Plugin& plugin, const Request& request, Repair& repair) {
  const bool repairs = request.command == Command::kRepair;
  const auto verb =
      request.command == Command::kReclaim ? plugin.verbs.reclaim : plugin.verbs.migrate;
  if (repairs ? plugin.verbs.repair == nullptr : verb == nullptr) {
    throw Error(Code::kInvalidEnvironment, cat("unknown CNI_COMMAND: ", str(request.command)));
  }
  if (repairs) return plugin.verbs.repair(request, repair);
  verb(request, repair);
  return std::nullopt;
}

void dispatch(const Plugin& plugin, const Request& request) {
  const auto call = [&request](void (*verb)(const Request&)) {
    if (verb != nullptr) verb(request);
  };
  switch (request.command) {
    case Command::kDel:
      return call(plugin.verbs.del);
    case Command::kCheck:
      return call(plugin.verbs.check);
    case Command::kGc:
      collect(plugin, request);
      return;
    case Command::kStatus:
      return call(plugin.verbs.status);
    case Command::kAdd:
    case Command::kRepair:
    case Command::kReclaim:
    case Command::kMigrate:
    case Command::kVersion:
      return;
  }
}

int run(const Plugin& plugin, const Invocation& invocation) noexcept {
  Request request;
  CallLog log(plugin, invocation.env);
  const auto serve_all = [&] {
    read(invocation, request);
    log.has_read(request);
    serve(plugin, invocation, request);
    log.finish(request, nullptr);
  };
  return reporting(plugin, serve_all, [&](const Error& e) {
    const int status = fail(invocation, request.stated_version(), e);
    log.finish(request, &e);
    return status;
  });
}

int validate(const Plugin& plugin, const Invocation& invocation) {
  Request request;
  nlohmann::ordered_json answer;
  const auto look = [&] {
    request.read(for_no_container(invocation.env), invocation.in);
    if (invocation.env.contains(kIpamCall)) require_ipam(plugin);
    if (plugin.verbs.validate != nullptr) plugin.verbs.validate(request);
  };
  const int status = reporting(plugin, look, [&](const Error& e) {
    answer = error_object(request.stated_version(), e);
    return 1;
  });
  const bool has_table = plugin.manual != nullptr && request.conf->is_object();
  const auto found =
      has_table ? complaints(*plugin.manual, *request.conf) : std::vector<Complaint>();
  if (!found.empty()) answer["findings"] = json_of(found);
  if (!answer.is_null()) netlink::write_all(invocation.out, text_of(answer), "stdout");
  return status;
}

int plugin_main(const Plugin& plugin, int argc, char** argv) {
  if (argc > 1) {
    for (const Subcommand& one : plugin.subcommands) {
      if (argv[1] == one.name) return one.run(argc - 1, argv + 1);
    }
    return answer(plugin, argc, argv);
  }
  Invocation invocation{.env = environment_for_plugins()};
  if (lookup(invocation.env, "CNI_COMMAND").empty()) {
    note(about(plugin));
    return 0;
  }
  ::signal(SIGPIPE, SIG_IGN);  // a closed stdout must undo ADD, not end the process
  const netlink::Fd out = private_stdout();
  invocation.out = out.get();
  return run(plugin, invocation);
}

}  // namespace cni
