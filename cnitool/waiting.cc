#include "cnitool/waiting.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>

#include "cnitool/output.h"
#include "libcni/common/dir.h"
#include "libcni/common/undo.h"
#include "netlink/types/fd.h"

namespace tool {

namespace {

// The names of the plugins that run: children of the threads that call them, as far as the kernel
// lists them (CONFIG_PROC_CHILDREN, see proc(5)).
std::string running() {
  std::set<std::string> names;
  for (const std::string& thread : cni::names_in("/proc/self/task")) {
    const auto read = netlink::read_file(cat("/proc/self/task/", thread, "/children"));
    std::string all = read.value_or("");
    for (auto end = all.find(' '); end != all.npos; end = all.find(' ')) {
      const std::string comm = cat("/proc/", all.substr(0, end), "/comm");
      std::string name = netlink::read_file(comm).value_or("");
      all.erase(0, end + 1);
      if (name.ends_with('\n')) name.pop_back();
      if (!name.empty()) names.insert(name);
    }
  }
  return names.empty() ? "a lock that another operation has"
                       : cat("plugin ", joined({names.begin(), names.end()}));
}

void watch(const std::stop_token& stop, const std::string& operation, const Steps* steps) {
  constexpr int kFirst = 2;
  constexpr int kNext = 10;
  std::mutex mutex;
  std::condition_variable_any ended;
  std::unique_lock lock(mutex);
  for (int waited = kFirst;; waited += kNext) {
    const std::chrono::seconds pause(waited == kFirst ? kFirst : kNext);
    ended.wait_for(lock, stop, pause, [] { return false; });
    if (stop.stop_requested()) return;
    const std::size_t all = steps == nullptr ? 0 : steps->all.load();
    const std::string come =
        all == 0 ? "" : cat(steps->done.load(), " of ", counted(all, "attachment"), ", ");
    cni::note(cat(operation, ": ", come, "waiting for ", running(), ", ", waited, " s"));
  }
}

}  // namespace

Waiting::Waiting(std::string operation, const Steps* steps) {
  if (::isatty(STDERR_FILENO) != 1) return;
  thread_ = std::jthread([operation = std::move(operation), steps](const std::stop_token& stop) {
    try {
      watch(stop, operation, steps);
    } catch (const std::exception&) {  // without /proc nobody knows
    }
  });
}

}  // namespace tool
