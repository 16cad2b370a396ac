#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/places.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/known_plugins.h"
#include "cnitool/output.h"
#include "cnitool/pool.h"
#include "libcni/common/lock.h"
#include "libcni/runtime/operation_lock.h"
#include "plugins/names/state.h"

namespace tool::doctor {

namespace {

constexpr std::chrono::milliseconds kPause{50};

// The locks that plugins take, and the networks whose calls wait for each.
std::vector<HeldLock> locks_of(const Node& node) {
  std::vector<HeldLock> out;
  const auto lock_in = [&out](const std::string& dir) -> HeldLock& {
    const std::string path = cat(dir, "/lock");
    for (HeldLock& one : out) {
      if (one.path == path) return one;
    }
    return out.emplace_back(HeldLock{.path = path});
  };
  for (const Pool& pool : node.pools) {
    HeldLock& lock = lock_in(pool.dir);
    lock.networks.insert(pool.network);
    lock.plugins.emplace(type_with(cni::Fact::kRanges));
    lock.plugins.insert(pool.type);
  }
  for (const auto& [dir, type] : names::kStateDirs) {
    HeldLock& lock = lock_in(dir);
    lock.plugins.insert(std::string(type));
    for (const std::string& network : users_of(node, type)) lock.networks.insert(network);
    for (const AttachmentState& one : node.attachments) {
      if (one.types.contains(std::string(type))) lock.networks.insert(one.key.network);
    }
  }
  return out;
}

// Tried only where a line of /proc/locks has the file's inode, which another file may have too: a
// call that asks at the same moment waits a millisecond.
bool is_held(const netlink::Fd& file) {
  if (cni::lock_holder(file.get()).empty()) return false;
  if (::flock(file.get(), LOCK_SH | LOCK_NB) != 0) return true;
  ::flock(file.get(), LOCK_UN);
  return false;
}

struct Watched {
  HeldLock lock;
  std::function<bool()> is_held;
  std::function<std::vector<cni::FileUser>()> holders;
};

netlink::Fd open_lock(const std::string& path) {
  return netlink::Fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

std::vector<Watched> watched(const Node& node) {
  std::vector<Watched> out;
  for (HeldLock& lock : locks_of(node)) {
    const auto file = std::make_shared<netlink::Fd>(open_lock(lock.path));
    if (!*file) continue;
    out.push_back({std::move(lock), [file] { return is_held(*file); },
                   [file] { return cni::lock_holders(file->get()); }});
  }
  std::set<std::string> networks;
  for (const AttachmentState& one : node.attachments) networks.insert(one.key.network);
  for (const std::string& network : networks) {
    const auto holders = [cache = cni::Cache(node.cache_dir), network] {
      return cni::OperationLock::collectors(cache, network);
    };
    out.push_back({{.path = cat(node.cache_dir, "/lock"), .networks = {network}, .is_gc = true},
                   [holders] { return !holders().empty(); },
                   holders});
  }
  return out;
}

}  // namespace

std::vector<HeldLock> held_locks(const Node& node) {
  auto held = watched(node);
  const auto drop_free = [&held] {
    std::erase_if(held, [](const Watched& one) { return !one.is_held(); });
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kHungSeconds);
  for (drop_free(); !held.empty() && std::chrono::steady_clock::now() < end; drop_free()) {
    std::this_thread::sleep_for(kPause);
  }
  std::vector<HeldLock> out;
  for (Watched& one : held) {
    out.push_back(std::move(one.lock));
    out.back().holders = one.holders();
  }
  return out;
}

bool is_locked(const Node& node, const std::string& network) {
  return std::ranges::any_of(node.held_locks,
                             [&](const HeldLock& one) { return one.networks.contains(network); });
}

// A call gives up after 60 s (cni::kLockDeadline), so that a runtime sees it fail and tries again.
Findings check_locks(const Node& node) {
  Findings out;
  for (const HeldLock& one : node.held_locks) {
    Names holders, pids;
    for (const auto& user : one.holders) {
      holders.push_back(user.str());
      pids.push_back(user.pid);
    }
    const Names networks(one.networks.begin(), one.networks.end());
    const std::string who = networks.empty() ? "networks" : cat("'", joined(networks, "', '"), "'");
    out.push_back(
        {one.is_gc ? Level::kWarning : Level::kError,
         cat("lock '", one.path, "' has not been free for ", kHungSeconds,
             " s: ", holders.empty() ? "its holder is unknown" : cat("held by ", joined(holders))),
         cat("ADD and DEL of ", who, " wait for it and fail; their pods were not looked at"),
         pids.empty() ? "cat /proc/locks"
         : one.is_gc  ? cat("ps -fp ", joined(pids, ","))
                      : cat("kill -9 ", joined(pids, " ")),
         networks});
  }
  return out;
}

}  // namespace tool::doctor
