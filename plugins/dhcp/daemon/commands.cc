// The subcommands: the daemon's process, and the list of leases.
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "libcni/common/undo.h"
#include "libcni/config/json.h"
#include "libcni/plugin/privileges.h"
#include "netlink/types/fd.h"
#include "plugins/dhcp/daemon/daemon.h"
#include "plugins/dhcp/daemon/daemon_lock.h"
#include "plugins/dhcp/plugin/call.h"
#include "plugins/dhcp/protocol/socket_address.h"

namespace dhcp {

namespace {

using cni::cat;
using nlohmann::ordered_json;

// sd_notify(3).
void notify(std::string_view state) {
  const char* const path = ::getenv("NOTIFY_SOCKET");
  if (path == nullptr || (path[0] != '/' && path[0] != '@')) return;
  sockaddr_un address = socket_address(path);
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  const netlink::Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (::sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL,
               reinterpret_cast<const sockaddr*>(&address), size) < 0) {
    cni::note(cat("notify '", path, "': ", netlink::errno_text(errno)));
  }
}

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

int run_daemon(const Flags& flags) {
  cni::require_capabilities("run the daemon",
                            {netlink::Capability::kNetAdmin, netlink::Capability::kNetRaw,
                             netlink::Capability::kSysAdmin});
  raise_file_limit();
  const netlink::Fd lock =
      lock_for_daemon(flags.host_prefix + flags.state_dir, "keep the leases in");
  const std::string path = flags.host_prefix + flags.socket_path;
  Listener listener = open_listener(path);
  write_pid(flags.pid_file);
  Daemon daemon(flags, std::move(listener.fd));
  notify("READY=1");
  daemon.run();
  notify("STOPPING=1");
  if (listener.is_ours) ::unlink(path.c_str());
  if (!flags.pid_file.empty()) ::unlink(flags.pid_file.c_str());
  return 0;
}

// Seconds from now; null is never.
ordered_json seconds_until(Time when, Time now) {
  if (when == kNever) return nullptr;
  return std::max<std::int64_t>(
      0, std::chrono::duration_cast<std::chrono::seconds>(when - now).count());
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

constexpr const char* kLeasesUsage =
    "Usage of dhcp leases:\n"
    "  -json\n"
    "        as JSON\n"
    "  -socketpath string\n"
    "        socket of the daemon (default /run/cni/dhcp.sock)\n"
    "The times of RENEW and EXPIRE are seconds from now.\n";

int list_leases(int argc, char** argv) {
  std::string socket_path = kSocketPath;
  bool as_json = false;
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (argument.starts_with("--")) argument.remove_prefix(1);
    if (argument == "-json") {
      as_json = true;
    } else if (argument == "-socketpath" && i + 1 < argc) {
      socket_path = argv[++i];
    } else if (argument == "-help" || argument == "-h") {
      netlink::write_all(STDOUT_FILENO, kLeasesUsage, "stdout");
      return 0;
    } else {
      throw std::invalid_argument(cat("unexpected argument '", argv[i], "'\n", kLeasesUsage));
    }
  }
  const auto answer =
      call_daemon(socket_path, {.method = std::string(method::kLeases)}, std::chrono::seconds(10));
  const auto leases = cni::try_parse_ordered_json(answer.field("Text").text);
  netlink::write_all(STDOUT_FILENO, as_json ? leases.dump(2) + "\n" : table_of(leases), "stdout");
  return 0;
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

std::string leases_json(const std::vector<const Attachment*>& attachments, Time now) {
  ordered_json out = ordered_json::array();
  for (const Attachment* const one : attachments) {
    const State& state = one->state();
    const auto& lease = state.lease;
    out.push_back({{"containerID", state.owner.container_id},
                   {"network", state.owner.network},
                   {"ifname", state.owner.ifname},
                   {"netns", state.owner.netns},
                   {"address", lease ? ordered_json(lease->address.str()) : ordered_json()},
                   {"server", lease ? ordered_json(lease->server.str()) : ordered_json()},
                   {"state", std::string(str(one->client().state()))},
                   {"renew", lease ? seconds_until(lease->renew, now) : ordered_json()},
                   {"rebind", lease ? seconds_until(lease->rebind, now) : ordered_json()},
                   {"expire", lease ? seconds_until(lease->expire, now) : ordered_json()},
                   {"problem", one->problem()}});
  }
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

int daemon_command(int argc, char** argv) {
  return reporting("dhcp daemon", [&] {
    const Flags flags = Flags::parse({argv + 1, static_cast<std::size_t>(argc - 1)});
    if (!flags.help) return run_daemon(flags);
    netlink::write_all(STDOUT_FILENO, flags_help(), "stdout");
    return 0;
  });
}

int leases_command(int argc, char** argv) {
  ::signal(SIGPIPE, SIG_IGN);
  return reporting("dhcp leases", [&] { return list_leases(argc, argv); });
}

}  // namespace dhcp
