#include "plugins/dhcp/commands.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "libcni/common/undo.h"
#include "libcni/config/json.h"
#include "libcni/daemon/flags.h"
#include "libcni/daemon/log.h"
#include "libcni/daemon/service_manager.h"
#include "libcni/plugin/privileges.h"
#include "netlink/types/fd.h"
#include "plugins/dhcp/daemon/daemon.h"
#include "plugins/dhcp/daemon/daemon_lock.h"
#include "plugins/dhcp/plugin/call.h"

namespace dhcp {

namespace {

using cni::cat;
using nlohmann::ordered_json;

// Each lease that waits for an answer has a socket.
void raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void write_pid(const std::string& path) {
  if (path.empty()) return;
  const auto slash = path.rfind('/');
  cni::Dir::create(slash == 0 ? "/" : path.substr(0, slash))
      .replace(path.substr(slash + 1), cat(::getpid(), "\n"), cat(path.substr(slash + 1), ".new"));
}

int print(const std::string& text) {
  netlink::write_all(STDOUT_FILENO, text, "stdout");
  return 0;
}

int run_daemon(const Flags& flags) {
  cni::require_capabilities("run the daemon",
                            {netlink::Capability::kNetAdmin, netlink::Capability::kNetRaw,
                             netlink::Capability::kSysAdmin});
  raise_file_limit();
  const netlink::Fd lock =
      lock_for_daemon(flags.host_prefix + flags.state_dir, "keep the leases in");
  Listening listening = open_listener(flags.host_prefix + flags.socket_path);
  write_pid(flags.pid_file);
  cni::log_notes();  // who typed the command has read why it does not start
  Daemon daemon(flags, std::move(listening));
  cni::notify_service_manager("READY=1");
  daemon.run();
  cni::notify_service_manager("STOPPING=1");
  if (!flags.pid_file.empty()) ::unlink(flags.pid_file.c_str());
  return 0;
}

std::string cell(const ordered_json& value) {
  if (value.is_null()) return "-";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

constexpr const char* kColumns[] = {"containerID", "network", "ifname", "address",
                                    "server",      "state",   "renew",  "expire"};
constexpr const char* kTitles[] = {"CONTAINER", "NETWORK", "INTERFACE", "ADDRESS",
                                   "SERVER",    "STATE",   "RENEW",     "EXPIRE"};

std::string table_of(const ordered_json& leases) {
  std::vector<std::vector<std::string>> rows{{std::begin(kTitles), std::end(kTitles)}};
  for (const auto& lease : leases) {
    auto& row = rows.emplace_back();
    for (const char* const column : kColumns) row.push_back(cell(lease.at(column)));
  }
  std::string out;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::size_t width = 0;
      for (const auto& other : rows) width = std::max(width, other[i].size());
      out += row[i];
      out += i + 1 < row.size() ? std::string(width - row[i].size() + 2, ' ') : "\n";
    }
  }
  return out;
}

int list_leases(std::span<const char* const> arguments) {
  std::string socket_path = names::kDhcpSocket;
  bool as_json = false;
  const std::vector<cni::Flag> table{
      {"json", as_json, "as JSON"},
      {"socketpath", socket_path, "socket of the daemon (default /run/cni/dhcp.sock)"}};
  if (const auto help = cni::read_flags("dhcp leases", table, arguments)) {
    return print(*help + "The times of RENEW and EXPIRE are seconds from now.\n");
  }
  const auto answer =
      call_daemon(socket_path, {.method = std::string(method::kLeases)}, std::chrono::seconds(10));
  const auto leases = cni::try_parse_ordered_json(answer.field("Text").text);
  return print(as_json ? leases.dump(2) + "\n" : table_of(leases));
}

std::span<const char* const> arguments_of(int argc, char** argv) {
  return {argv + 1, static_cast<std::size_t>(argc - 1)};
}

// Runs fn; what it throws is printed. An exit status.
template <class Fn>
int reporting(const char* what, Fn&& fn) {
  try {
    return fn();
  } catch (const std::invalid_argument& e) {
    cni::note(cat(what, ": ", e.what()));
    return 2;
  } catch (const std::exception& e) {
    cni::note(cat(what, ": ", e.what()));
    return 1;
  }
}

}  // namespace

int daemon_command(int argc, char** argv) {
  return reporting("dhcp daemon", [&] {
    const Flags flags = Flags::parse(arguments_of(argc, argv));
    return flags.help ? print(*flags.help) : run_daemon(flags);
  });
}

int leases_command(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  return reporting("dhcp leases", [&] { return list_leases(arguments_of(argc, argv)); });
}

}  // namespace dhcp
