#include "libcni/plugin/invoke.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <thread>

#include "libcni/common/dir.h"
#include "libcni/config/json.h"
#include "libcni/config/nearest.h"
#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace cni {

namespace {

using netlink::Fd;
using Clock = std::chrono::steady_clock;

struct Pipe {
  Fd read, write;
};

Pipe make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw netlink::Error("make a pipe", errno);
  return {Fd(fds[0]), Fd(fds[1])};
}

struct Child {
  const char* file;
  char* const* argv;
  char* const* envp;
  int in, out, err;
  pid_t parent;
  bool own_group;
  int failed_to_exec;  // written by the child: it shares our memory until it runs the program
};

// dup2 to the same number would leave close-on-exec set.
bool pass(int fd, int as) {
  if (fd == as) return ::fcntl(fd, F_SETFD, 0) == 0;
  return ::dup2(fd, as) >= 0;
}

// Between vfork(2) and execve(2): system calls only.
[[noreturn]] void exec(Child& child) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != child.parent) ::_exit(127);  // it died before the line above
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;  // who waits for signals by descriptor has blocked them, which would be inherited
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  if (child.own_group) ::setpgid(0, 0);
  if (pass(child.in, STDIN_FILENO) && pass(child.out, STDOUT_FILENO) &&
      pass(child.err, STDERR_FILENO)) {
    ::execve(child.file, child.argv, child.envp);
  }
  child.failed_to_exec = errno;
  ::_exit(127);
}

// vfork(2), not posix_spawn(3): the death signal must be set in the child.
pid_t spawn(Child& child) {
  const pid_t pid = ::vfork();
  if (pid == 0) exec(child);
  if (pid < 0) throw netlink::Error(cat("start '", child.file, "'"), errno);
  return pid;
}

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) throw netlink::Error("wait for its end", errno);
  }
  return status;
}

// spawn(), until it runs the program. A file that is open for writing cannot be run: somebody
// installs the plugin by copying it over the old one.
pid_t start(Child& child) {
  constexpr int kMaxTries = 50;
  for (int tries = 1;; ++tries) {
    const pid_t pid = spawn(child);
    if (child.failed_to_exec == 0) return pid;
    wait_for(pid);
    if (child.failed_to_exec != ETXTBSY || tries == kMaxTries) {
      throw netlink::Error(cat("run '", child.file, "'"), child.failed_to_exec);
    }
    child.failed_to_exec = 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

/// The time until which to wait, and a descriptor that ends the wait earlier.
struct Deadline {
  Clock::time_point end;
  int stop_fd;

  static Deadline from(std::chrono::seconds limit, int stop_fd) {
    const auto now = Clock::now();
    const auto most =
        std::chrono::duration_cast<std::chrono::seconds>(Clock::time_point::max() - now);
    return {limit < most ? now + limit : Clock::time_point::max(), stop_fd};
  }
  /// poll(2) on all of set, of which the last is filled in here. False: a signal came.
  /// \throws Error(kTryAgainLater) when it is over.
  bool poll(std::span<pollfd> set) const {
    set.back() = {stop_fd, POLLIN, 0};
    const int ready = ::poll(set.data(), set.size(), left());
    if (ready < 0 && errno != EINTR) throw netlink::Error("wait for its end", errno);
    if (ready == 0) throw Error(Code::kTryAgainLater, "it took too long and was stopped");
    if (ready > 0 && set.back().revents != 0) {
      throw Error(Code::kTryAgainLater, "it was stopped before its end");
    }
    return ready > 0;
  }

  /// Whether it was over from the start.
  bool is_over() const {
    pollfd stop{stop_fd, POLLIN, 0};
    return ::poll(&stop, 1, 0) > 0;
  }

 private:
  int left() const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    return static_cast<int>(
        std::clamp<decltype(left.count())>(left.count(), 0, std::numeric_limits<int>::max()));
  }
};

/// Kills and reaps the child if an exception leaves execute().
class Reaper {
 public:
  Reaper(pid_t pid, bool group) : pid_(pid), group_(group) {}
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;
  ~Reaper() {
    if (pid_ <= 0) return;
    ::kill(group_ ? -pid_ : pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  /// Waits until the deadline: a plugin may close its output and go on. Before Linux 5.3, which has
  /// no pidfd, that has no limit.
  int wait(const Deadline& deadline) {
    const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    std::array<pollfd, 2> set{{{process.get(), POLLIN, 0}, {}}};
    while (process && !deadline.poll(set)) {
    }
    return wait();
  }
  int wait() {
    const pid_t pid = pid_;
    pid_ = 0;
    return wait_for(pid);
  }

 private:
  pid_t pid_;
  bool group_;
};

// Reads what is there; false at the end of the file. \throws Error for what no plugin prints.
bool drain(int fd, std::string& into) {
  constexpr std::size_t kMost = 16 << 20;  // bytes
  if (into.size() > kMost) throw Error(Code::kIoFailure, "it printed more than 16 MiB");
  char buffer[4096];
  const ssize_t n = ::read(fd, buffer, sizeof buffer);
  if (n < 0) {
    if (errno == EINTR || errno == EAGAIN) return true;
    throw netlink::Error("read its output", errno);
  }
  into.append(buffer, static_cast<std::size_t>(n));
  return n > 0;
}

// Writes what fits; false when there is no more to write, or the plugin reads no more.
bool write_some(int fd, std::string_view& input) {
  const ssize_t n = ::write(fd, input.data(), input.size());
  if (n < 0) {
    if (errno == EINTR || errno == EAGAIN) return true;
    if (errno == EPIPE) return false;  // a plugin need not read its stdin
    throw netlink::Error("write its input", errno);
  }
  input.remove_prefix(static_cast<std::size_t>(n));
  return !input.empty();
}

// Serves both directions at once: neither side may block on a full pipe.
void exchange(Fd in, Fd out, Fd err, std::string_view input, Outcome& outcome,
              const Deadline& deadline) {
  if (::fcntl(in.get(), F_SETFL, O_NONBLOCK) != 0) throw netlink::Error("set up a pipe", errno);
  if (input.empty()) in.reset();
  while (out || err) {
    std::array<pollfd, 4> set{
        {{in.get(), POLLOUT, 0}, {out.get(), POLLIN, 0}, {err.get(), POLLIN, 0}, {}}};
    if (!deadline.poll(set)) continue;
    if (set[0].revents != 0 && !write_some(in.get(), input)) in.reset();
    if (set[1].revents != 0 && !drain(out.get(), outcome.out)) out.reset();
    if (set[2].revents != 0 && !drain(err.get(), outcome.err)) err.reset();
  }
}

// An array for execve(2), which points into texts.
std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// "ipam.type: \"host-locla\" (did you mean host-local?); there are bandwidth, bridge, ..."
std::string what_is_there(std::string_view type, const std::vector<std::string>& path,
                          std::string_view key) {
  constexpr std::size_t kMax = 30;
  std::set<std::string> names;
  for (const std::string& directory : path) {
    for (std::string& name : names_in(directory)) names.insert(std::move(name));
  }
  const std::string meant = nearest(type, {names.begin(), names.end()});
  std::string out = cat(key, ": \"", type, "\"");
  if (!meant.empty()) out += cat(" (did you mean ", meant, "?)");
  if (names.empty()) return out + "; there are no plugins";
  std::size_t count = 0;
  for (const std::string& name : names) {
    if (++count > kMax) return out + ", ...";
    out += cat(count == 1 ? "; there are " : ", ", name);
  }
  return out;
}

std::string ended_how(const Outcome& outcome) {
  if (WIFSIGNALED(outcome.wait_status)) {
    return cat("killed by signal ", WTERMSIG(outcome.wait_status));
  }
  return cat("exit status ", WEXITSTATUS(outcome.wait_status));
}

// Whether a path leads to nothing, also for want of a right; else it is unknown (stat(2)).
bool says_absent(int error) {
  return error == ENOENT || error == ENOTDIR || error == EACCES || error == ELOOP ||
         error == ENAMETOOLONG;
}

}  // namespace

std::vector<std::string> split_path(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const auto colon = std::min(text.find(':', at), text.size());
    if (colon > at) out.emplace_back(text.substr(at, colon - at));
    at = colon + 1;
  }
  return out;
}

bool is_plugin_name(std::string_view type) {
  return !type.empty() && type != "." && type != ".." && type.find('/') == std::string_view::npos &&
         type.find('\0') == std::string_view::npos;
}

std::string find_plugin(std::string_view type, const std::vector<std::string>& path,
                        std::string_view key) {
  if (type.empty()) {
    throw Error(Code::kInvalidConfig, "no plugin name provided",
                key == "type" ? "" : cat(key, ": expected the name of a plugin"));
  }
  if (!is_plugin_name(type)) {
    throw Error(Code::kInvalidConfig, cat("invalid plugin name: ", type),
                cat(key, ": expected a file name without directories"));
  }
  if (path.empty())
    throw Error(Code::kInvalidEnvironment, "no paths provided", "CNI_PATH is empty");
  std::string tried;
  std::optional<netlink::Error> unknown;  // whether it is there
  for (const std::string& directory : path) {
    std::string file = cat(directory, "/", type);
    struct stat about {};
    const bool is_there = ::stat(file.c_str(), &about) == 0;
    if (is_there && S_ISREG(about.st_mode)) return file;
    if (!is_there && !says_absent(errno)) unknown.emplace(cat("look for '", file, "'"), errno);
    tried += cat(tried.empty() ? "" : " ", directory);
  }
  if (unknown) throw *unknown;
  throw Error(Code::kInvalidConfig,
              cat("failed to find plugin \"", type, "\" in path [", tried, "]"),
              what_is_there(type, path, key));
}

Outcome execute(const Executable& program, std::string_view input, std::chrono::seconds limit) {
  const Deadline deadline = Deadline::from(limit, program.stop_fd);
  if (deadline.is_over()) throw Error(Code::kTryAgainLater, "it was stopped before its start");
  const std::string& file = program.file;
  std::vector<std::string> words{file};
  words.insert(words.end(), program.arguments.begin(), program.arguments.end());
  std::vector<std::string> pairs;
  pairs.reserve(program.env.size());
  for (const auto& [key, value] : program.env) pairs.push_back(cat(key, "=", value));
  const std::vector<char*> argv = pointers(words);
  const std::vector<char*> envp = pointers(pairs);

  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  Child child{file.c_str(),  argv.data(),       envp.data(),
              in.read.get(), out.write.get(),   err.write.get(),
              ::getpid(),    program.own_group, 0};
  Reaper reaper(start(child), program.own_group);
  in.read.reset();
  out.write.reset();
  err.write.reset();
  Outcome outcome;
  during(cat("run '", file, "'"), [&] {
    try {
      as_error([&] {  // no netlink::Error: it was started
        exchange(std::move(in.write), std::move(out.read), std::move(err.read), input, outcome,
                 deadline);
        outcome.wait_status = reaper.wait(deadline);
      });
    } catch (const Error& e) {  // what it said until then may tell why
      throw Error(e.code(), e.what(), outcome.err.empty() ? e.details() : outcome.err);
    }
  });
  return outcome;
}

std::optional<Error> error_object_of(const Outcome& outcome) {
  try {
    const nlohmann::json doc = parse_json(outcome.out, "it");
    const Reader root(doc);
    unsigned code = 0;
    std::string msg;
    std::string details;
    root.into("code", code, 0, 0xffffffff);
    for (auto [name, text] : {std::pair("msg", &msg), std::pair("details", &details)}) {
      if (const Reader value = root[name]; value.present()) *text = value.json().get<std::string>();
    }
    if (!msg.empty()) return Error(static_cast<Code>(code), msg, details);
  } catch (const Error&) {  // no error object
  } catch (const nlohmann::json::type_error&) {
  }
  return std::nullopt;
}

Error error_from(std::string_view type, const Outcome& outcome) {
  if (auto printed = error_object_of(outcome)) return *std::move(printed);
  std::string why = cat("plugin '", type, "' failed (", ended_how(outcome), ")");
  if (!outcome.out.empty()) {
    return {Code::kInternal, cat(why, " with output that is no error object"), outcome.out};
  }
  if (outcome.err.empty()) return {Code::kInternal, cat(why, " with no error message")};
  return {Code::kInternal, cat(why, ": ", outcome.err)};
}

}  // namespace cni
