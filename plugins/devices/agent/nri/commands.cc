#include "plugins/devices/agent/nri/commands.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "kubernetes/yaml.h"
#include "libcni/common/error.h"
#include "libcni/common/printable.h"
#include "libcni/daemon/event_loop.h"
#include "plugins/devices/agent/log.h"
#include "plugins/devices/agent/nri/inject/wanted.h"
#include "plugins/devices/agent/nri/log/life.h"
#include "plugins/devices/agent/privileges.h"

namespace devices::nri {

namespace {

using cni::cat;
using cni::Code;

// stdout of a plugin that the runtime starts is nowhere.
constexpr const char* kDefaultFile = "/var/log/patchbay-nri.jsonl";

// The runtime refuses others (pkg/api/plugin.go).
void require(const Identity& identity) {
  const auto is_in_name = [](unsigned char c) {
    return std::isalnum(c) != 0 || std::strchr("_.+-", c) != nullptr;
  };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto& [name, index] = identity;
  if (name.empty() || name.size() > 255 || !std::ranges::all_of(name, is_in_name)) {
    throw cni::Error(Code::kInvalidConfig, cat("name '", cni::printable_text(name),
                                               "': expected letters, digits and \"_.+-\""));
  }
  if (index.size() != 2 || !std::ranges::all_of(index, is_digit)) {
    throw cni::Error(Code::kInvalidConfig,
                     cat("index '", cni::printable_text(index), "': expected two digits"));
  }
}

// Runs the plugin until a signal ends it, or the passed connection.
void run(Meeting meeting, Plugin plugin) {
  require(meeting.identity);
  ::signal(SIGPIPE, SIG_IGN);
  cni::EventLoop loop;
  loop.stop_on_signals();
  drop_capabilities();
  const Connection connection(loop, std::move(meeting.peer), std::move(meeting.identity),
                              std::move(plugin));
  loop.run([](const std::exception& e) { log(Level::kError, "serve NRI", {.error = e.what()}); });
}

// Where the lines go.
class Output {
 public:
  explicit Output(std::string file) : file_(std::move(file)) {}
  void set_file(std::string file) { file_ = std::move(file); }

  void write(const std::string& line) {
    try {
      const netlink::Fd file = file_.empty() ? netlink::Fd() : open_file();
      put(file ? file.get() : stdout_.get(), line + '\n');
      last_error_.clear();
    } catch (const std::exception& e) {
      if (last_error_ != e.what()) log(Level::kError, "write a line", {.error = e.what()});
      last_error_ = e.what();
    }
  }

 private:
  // A reader that does not read makes no pod wait for long: its lines are lost, and of one that was
  // written in part the rest, as on a full disk.
  void put(int fd, std::string line) {
    constexpr int kPatienceMs = 500;
    if (is_torn_) line.insert(0, 1, '\n');
    std::string_view rest = line;
    for (bool is_patient = last_error_.empty(); !rest.empty();) {
      const ssize_t size = ::write(fd, rest.data(), rest.size());
      if (size >= 0) {
        is_torn_ = true;
        rest.remove_prefix(static_cast<std::size_t>(size));
        continue;
      }
      if (errno == EINTR) continue;
      pollfd ready{fd, POLLOUT, 0};
      if (errno == EAGAIN && is_patient && ::poll(&ready, 1, kPatienceMs) > 0) continue;
      throw netlink::Error(cat("write to ", file_.empty() ? "stdout" : cat("'", file_, "'")),
                           errno);
    }
    is_torn_ = false;
  }

  // One that does not block, and leaves that of the shell as it is. A socket, as of the journal,
  // cannot be opened.
  static netlink::Fd open_stdout() {
    netlink::Fd out(::open("/proc/self/fd/1", O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC));
    if (!out) out = netlink::Fd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    return out;
  }

  // Opened each time: it may be renamed by logrotate(8).
  netlink::Fd open_file() const {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    netlink::Fd fd(::open(file_.c_str(), kFlags, 0600));
    if (!fd) throw netlink::Error(cat("open '", file_, "'"), errno);
    return fd;
  }

  std::string file_, last_error_;
  netlink::Fd stdout_ = open_stdout();
  bool is_torn_ = false;  ///< the last line was written in part
};

nlohmann::json config_in(const std::string& text, const std::set<std::string>& keys) {
  auto out = kubernetes::parse_yaml(text, "YAML");
  if (out.is_null()) return nlohmann::json::object();
  if (!out.is_object()) throw cni::Error(Code::kInvalidConfig, "it is no object");
  for (const auto& [key, value] : out.items()) {
    if (keys.contains(key)) continue;
    throw cni::Error(Code::kInvalidConfig, cat("unknown key '", cni::printable_text(key), "'"));
  }
  return out;
}

// A mistake in the config must not end the registration: a runtime does not start without its
// pre-installed plugins.
void configure(const std::string& text, LogOptions& options, Output& output) try {
  const auto config = config_in(text, {"file", "containers"});
  const bool containers = config.value("containers", options.containers);
  output.set_file(config.value("file", options.file));
  options.containers = containers;
} catch (const std::exception& e) {
  log(Level::kError, "read config", {.error = e.what()});
}

std::uint32_t events_of(bool containers) {
  if (!containers) return kSandboxEvents;
  return kSandboxEvents | bit(Event::kPostCreateContainer) | bit(Event::kStartContainer) |
         bit(Event::kStopContainer) | bit(Event::kRemoveContainer);
}

void require_namespaces(const std::vector<std::string>& allowed) {
  for (const std::string& one : allowed) {
    if (is_namespace(one)) continue;
    throw cni::Error(Code::kInvalidConfig,
                     cat("allow namespace '", cni::printable_text(one), "': it is no name of one"));
  }
}

// Until the config is right, no pod may ask.
std::set<std::string> allowed_in(const std::string& text) try {
  const auto config = config_in(text, {"allow"});
  const auto allowed =
      config.value("allow", nlohmann::json::array()).get<std::vector<std::string>>();
  require_namespaces(allowed);
  return {allowed.begin(), allowed.end()};
} catch (const std::exception& e) {
  log(Level::kError, "read config", {.error = e.what()});
  return {};
}

Adjustment injected(const Sandbox& sandbox, const Container& container, const Policy& policy) {
  const std::string pod = cat(sandbox.space, "/", sandbox.name);
  try {
    Adjustment out = wanted_by(sandbox, container, policy);
    for (const DeviceNode& one : out.nodes) {
      log(Level::kInfo, "inject device node", {.device = one.path, .pod = pod});
    }
    for (const std::string& one : out.cdi) {
      log(Level::kInfo, "inject CDI device", {.device = one, .pod = pod});
    }
    for (const auto& [key, value] : out.sysctl) {
      log(Level::kInfo, cat("set sysctl ", key), {.pod = pod});
    }
    return out;
  } catch (const cni::Error& e) {
    log(Level::kWarning, "refuse container", {.pod = pod, .error = e.what()});
    throw cni::Error(e.code(), cat("patchbay: ", e.what()));
  }
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

void inject(Meeting meeting, Policy policy) {
  const bool is_passed = static_cast<bool>(meeting.peer.passed);
  run(std::move(meeting),
      {.events = kSandboxEvents | bit(Event::kCreateContainer),
       .configured =
           [&](const Configuration& configuration) {
             policy.runtime = abilities_of(configuration.runtime, configuration.version);
             if (is_passed) policy.allowed = allowed_in(configuration.config);
           },
       .create = [&](const Sandbox& sandbox,
                     const Container& container) { return injected(sandbox, container, policy); }});
}

}  // namespace

void log_pods(Meeting meeting, LogOptions options) {
  const bool is_passed = static_cast<bool>(meeting.peer.passed);
  Output output(options.file);
  Life life(options.cache, [&](const std::string& line) { output.write(line); });
  const auto mask = [&] { return events_of(options.containers); };
  Plugin plugin{.events = events_of(is_passed || options.containers)};
  plugin.configured = [&, is_passed](const Configuration& configuration) {
    if (is_passed) configure(configuration.config, options, output);
    life.connected(configuration);
  };
  plugin.synchronized = [&](const auto& listed) { life.synchronized(listed); };
  plugin.happened = [&](Event event, const Sandbox& sandbox, const Container* container) {
    if ((mask() & bit(event)) != 0) life.happened(event, sandbox, container);
  };
  run(std::move(meeting), std::move(plugin));
}

void inject(Meeting meeting, const std::vector<std::string>& allowed) {
  if (allowed.empty()) {
    throw cni::Error(Code::kInvalidConfig,
                     "no namespace is allowed: who annotates a pod gets devices of this node, name "
                     "those who may with --allow NAMESPACE");
  }
  require_namespaces(allowed);
  inject(std::move(meeting), Policy{.allowed = {allowed.begin(), allowed.end()}});
}

// NN-NAME, as the runtime names the file and the plugin (pkg/adaptation/plugin.go).
bool run_preinstalled(const char* argv0) {
  const std::string_view path = argv0;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::string socket = variable("NRI_PLUGIN_SOCKET");
  const bool is_ours = name.ends_with("-patchbay-log") || name.ends_with("-patchbay-inject");
  if (socket.empty() || !is_ours) return false;
  if (socket != "3" || ::fcntl(3, F_GETFD) < 0) {
    throw cni::Error(
        Code::kInvalidEnvironment,
        cat("NRI_PLUGIN_SOCKET '", cni::printable_text(socket), "' is no descriptor 3"));
  }
  Meeting meeting{.peer = {.socket = "NRI", .passed = netlink::Fd(3)},
                  .identity = {variable("NRI_PLUGIN_NAME"), variable("NRI_PLUGIN_IDX")}};
  if (name.ends_with("-patchbay-log")) {
    log_pods(std::move(meeting), {.file = kDefaultFile});
  } else {
    inject(std::move(meeting), Policy{});
  }
  return true;
}

}  // namespace devices::nri
