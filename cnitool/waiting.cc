#include "cnitool/waiting.h"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "cnitool/output.h"
#include "libcni/common/undo.h"
#include "netlink/types/fd.h"

namespace tool {

namespace {

// The names of the plugins that run: children of the thread that calls them, as far as the kernel
// lists them (CONFIG_PROC_CHILDREN, see proc(5)).
std::string running() {
  const std::string children = cat("/proc/self/task/", ::getpid(), "/children");
  std::vector<std::string> names;
  std::string all = netlink::read_file(children).value_or("");
  for (auto end = all.find(' '); end != all.npos; end = all.find(' ')) {
    std::string name = netlink::read_file(cat("/proc/", all.substr(0, end), "/comm")).value_or("");
    all.erase(0, end + 1);
    if (name.ends_with('\n')) name.pop_back();
    if (!name.empty()) names.push_back(name);
  }
  return names.empty() ? "a lock that another operation has" : cat("plugin ", joined(names));
}

void watch(const std::stop_token& stop, const std::string& operation) {
  constexpr int kFirst = 2;
  constexpr int kNext = 10;
  std::mutex mutex;
  std::condition_variable_any ended;
  std::unique_lock lock(mutex);
  for (int waited = kFirst;; waited += kNext) {
    const std::chrono::seconds pause(waited == kFirst ? kFirst : kNext);
    ended.wait_for(lock, stop, pause, [] { return false; });
    if (stop.stop_requested()) return;
    cni::note(cat(operation, ": waiting for ", running(), ", ", waited, " s"));
  }
}

}  // namespace

Waiting::Waiting(std::string operation)
    : thread_([operation = std::move(operation)](const std::stop_token& stop) {
        try {
          watch(stop, operation);
        } catch (const std::exception&) {  // without /proc nobody knows
        }
      }) {}

}  // namespace tool
