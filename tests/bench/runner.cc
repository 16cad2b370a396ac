// Calls the plugins of a network as a container runtime does, and says what each call took.
//
//   runner STATE        reads jobs from stdin, one JSON object a line
//
//   {"verb": "ADD", "conflist": FILE, "path": DIRECTORIES, "parallel": 8, "wrap": [WORD...],
//    "tolerant": false, "pods": [{"id": ..., "netns": ..., "ifname": ..., "args": ...,
//    "capabilities":
//    {"portMappings": [...]}}]}
//
// For each call it writes {"pod", "plugin", "verb", "failed", "wall", "cpu", "rss"}, for each pod
// {"pod", "verb", "chain", "plugins"}, and at the end {"verb", "batch"} and {"done", "own"}:
// microseconds, and KiB of memory. "wall" is from the spawn until the plugin has closed its output
// and ended; "cpu" and "rss" are of all its processes; "chain" is from the first spawn to the last
// end, "plugins" the sum of its calls. What ADD answered is kept in the directory STATE, as
// runtimes do, for CHECK and DEL. The words of "wrap" go in front of each command; a % in them
// stands for the number of the pod's call. A call that fails ends its pod's, unless the job is
// tolerant.
//
// The memory that a process used at most begins with that of who spawned it: this one stays small.
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

extern char** environ;  // NOLINT(readability-redundant-declaration): not in every libc's unistd.h

namespace {

using nlohmann::json;

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000 + time.tv_nsec / 1000;
}

int checked(int result, const std::string& what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("read '" + path + "'");
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

struct Pipe {
  int out = -1, in = -1;  // what is written to in comes out of out
  Pipe() {
    int ends[2];
    checked(::pipe2(ends, O_CLOEXEC), "pipe");
    out = ends[0];
    in = ends[1];
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_in();
    ::close(out);
  }
  void close_in() {
    if (in >= 0) ::close(in);
    in = -1;
  }
};

struct Command {
  std::vector<std::string> words, environment;
  std::string input;
};

struct Outcome {
  int status = 0;
  std::string output;
  std::string errors;  // of a call that failed
  std::int64_t wall = 0, cpu = 0, rss = 0;
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::int64_t microseconds(const timeval& time) { return time.tv_sec * 1'000'000 + time.tv_usec; }

// What is written to stderr. The reference's sbr says there what it does.
struct Errors {
  int file = checked(::memfd_create("stderr", MFD_CLOEXEC), "memfd_create");
  Errors() = default;
  Errors(const Errors&) = delete;
  Errors& operator=(const Errors&) = delete;
  ~Errors() { ::close(file); }
  std::string text() const {
    char buffer[4096];
    const ssize_t got = ::pread(file, buffer, sizeof buffer, 0);
    return {buffer, static_cast<std::size_t>(std::max<ssize_t>(got, 0))};
  }
};

Outcome run(Command command) {
  Outcome out;
  Pipe input, output;
  const Errors errors;
  const auto size = command.input.size();
  if (size > 60'000) throw std::runtime_error("the config does not fit into a pipe");
  checked(static_cast<int>(::write(input.in, command.input.data(), size)), "write the config");
  input.close_in();
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input.out, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output.in, 1);
  ::posix_spawn_file_actions_adddup2(&actions, errors.file, 2);
  auto argv = pointers(command.words), envp = pointers(command.environment);

  const std::int64_t begin = now();
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), envp.data());
  output.close_in();
  if (error != 0) throw std::system_error(error, std::generic_category(), command.words[0]);
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(output.out, buffer, sizeof buffer)) > 0;) {
    out.output.append(buffer, static_cast<std::size_t>(got));
  }
  rusage used{};
  checked(::wait4(pid, &out.status, 0, &used), "wait4");
  out.wall = now() - begin;
  if (out.status != 0) out.errors = errors.text();

  ::posix_spawn_file_actions_destroy(&actions);
  out.cpu = microseconds(used.ru_utime) + microseconds(used.ru_stime);
  out.rss = used.ru_maxrss;
  return out;
}

// Lines of several threads, each whole.
void print(const json& line) {
  static std::mutex mutex;
  const std::string text = line.dump() + "\n";
  const std::lock_guard lock(mutex);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

struct Job {
  std::string verb, path, state;
  json network, wrap, pods;
  int parallel = 1;
  bool tolerant = false;
};

std::string find(const std::string& type, const std::string& path) {
  std::istringstream directories(path);
  for (std::string directory; std::getline(directories, directory, ':');) {
    const std::string file = directory.append("/").append(type);
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  throw std::runtime_error("no plugin '" + type + "' in " + path);
}

std::vector<std::string> environment(const Job& job, const json& pod) {
  std::vector<std::string> out;
  for (char** one = environ; *one != nullptr; ++one) {
    if (!std::string_view(*one).starts_with("CNI_")) out.emplace_back(*one);
  }
  out.push_back("CNI_COMMAND=" + job.verb);
  out.push_back("CNI_CONTAINERID=" + pod.at("id").get<std::string>());
  out.push_back("CNI_NETNS=" + pod.at("netns").get<std::string>());
  out.push_back("CNI_IFNAME=" + pod.value("ifname", "eth0"));
  out.push_back("CNI_ARGS=" + pod.value("args", ""));
  out.push_back("CNI_PATH=" + job.path);
  return out;
}

std::string request(const Job& job, const json& plugin, const json& pod, const json& previous) {
  json out = plugin;
  out["name"] = job.network.at("name");
  out["cniVersion"] = job.network.at("cniVersion");
  const json given = pod.value("capabilities", json::object());
  const json wanted = plugin.value("capabilities", json::object());
  for (const auto& [key, value] : given.items()) {
    if (wanted.value(key, false)) {
      out["runtimeConfig"][key] = value;
    }
  }
  if (!previous.is_null()) out["prevResult"] = previous;
  return out.dump();
}

Command command_of(const Job& job, const json& plugin, const json& pod, const json& previous) {
  const auto type = plugin.at("type").get<std::string>();
  Command out{{}, environment(job, pod), request(job, plugin, pod, previous)};
  out.words.push_back(find(type, job.path));
  return out;
}

void wrap(Command& command, const json& words, unsigned number) {
  std::vector<std::string> before;
  for (std::string word : words) {
    if (const auto at = word.find('%'); at != word.npos)
      word.replace(at, 1, std::to_string(number));
    before.push_back(word);
  }
  command.words.insert(command.words.begin(), before.begin(), before.end());
}

std::string state_of(const Job& job, const json& pod) {
  return job.state + "/" + pod.at("id").get<std::string>();
}

void run_pod(const Job& job, const json& pod) {
  json previous;
  const std::string state = state_of(job, pod);
  if (job.verb != "ADD") previous = json::parse(read_file(state));
  std::vector<json> plugins = job.network.at("plugins");
  if (job.verb == "DEL") std::reverse(plugins.begin(), plugins.end());
  std::int64_t sum = 0;
  unsigned number = 0;
  const std::int64_t begin = now();
  for (const json& plugin : plugins) {
    Command command = command_of(job, plugin, pod, previous);
    wrap(command, job.wrap, number++);
    const Outcome done = run(std::move(command));
    if (done.status != 0 && !job.tolerant) {
      throw std::runtime_error(plugin.at("type").get<std::string>() + " " + job.verb + " of " +
                               pod.at("id").get<std::string>() + ": wait status " +
                               std::to_string(done.status) + ": " + done.output + done.errors);
    }
    if (job.verb == "ADD" && !done.output.empty()) previous = json::parse(done.output);
    sum += done.wall;
    print({{"pod", pod.at("id")},
           {"plugin", plugin.at("type")},
           {"verb", job.verb},
           {"failed", done.status != 0},
           {"wall", done.wall},
           {"cpu", done.cpu},
           {"rss", done.rss}});
  }
  print({{"pod", pod.at("id")}, {"verb", job.verb}, {"chain", now() - begin}, {"plugins", sum}});
  if (job.verb == "ADD") std::ofstream(state) << previous.dump();
  if (job.verb == "DEL") ::unlink(state.c_str());
}

// As many threads as there may be pods at a time; each takes the next pod when it is free.
void run_job(const Job& job) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t at = 0; (at = next++) < job.pods.size();) {
      try {
        run_pod(job, job.pods[at]);
      } catch (const std::exception& e) {
        print({{"failure", e.what()}});
      }
    }
  };
  const std::int64_t begin = now();
  if (job.parallel == 1) {
    work();
  } else {
    std::vector<std::thread> threads;
    for (int i = 0; i < job.parallel; ++i) threads.emplace_back(work);
    for (std::thread& thread : threads) thread.join();
  }
  print({{"verb", job.verb}, {"batch", now() - begin}});
}

// The most memory that this process itself used. ru_maxrss is no help: it began with that of a
// parent.
std::int64_t own_memory() {
  std::istringstream status(read_file("/proc/self/status"));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::atoll(line.c_str() + 6);
  }
  return 0;
}

Job read_job(const std::string& line, const std::string& state) {
  json in = json::parse(line);
  return {.verb = in.at("verb"),
          .path = in.at("path"),
          .state = state,
          .network = json::parse(read_file(in.at("conflist"))),
          .wrap = in.value("wrap", json::array()),
          .pods = std::move(in.at("pods")),
          .parallel = in.value("parallel", 1),
          .tolerant = in.value("tolerant", false)};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "runner STATE < JOBS\n";
    return 2;
  }
  for (std::string line; std::getline(std::cin, line);) {
    try {
      run_job(read_job(line, argv[1]));
    } catch (const std::exception& e) {
      print({{"failure", e.what()}});
    }
    print({{"done", true}, {"own", own_memory()}});
    std::fflush(stdout);
  }
  return 0;
}
