#include "plugins/devices/agent/kubelet/instances.h"

#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <utility>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/daemon/listener.h"
#include "plugins/devices/agent/kubelet/endpoint.h"

namespace devices {

namespace {

using cni::cat;

constexpr std::chrono::milliseconds kMoment{200};
constexpr Instances::Clock::time_point kLives{};

bool is_young(const std::string& path) {
  constexpr std::time_t kYoung = 10;
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 && S_ISSOCK(found.st_mode) &&
         std::time(nullptr) - found.st_mtime < kYoung;
}

}  // namespace

Instances::Instances(std::vector<std::string> folders, const std::string& resource)
    : folders_(std::move(folders)), prefix_(Endpoint::prefix(resource)) {}

// A process binds a socket and then listens on it: one that is young and refuses may be about to.
std::map<std::string, bool> Instances::found() const {
  std::map<std::string, bool> out;
  for (const std::string& folder : folders_) {
    for (const std::string& name : cni::names_in(folder)) {
      const std::string instance = Endpoint::instance_of(name, prefix_);
      if (instance.empty() || instance == Endpoint::own_instance()) continue;
      const std::string path = cat(folder, "/", name);
      const bool listens = cni::has_listener(path);
      if (listens || is_young(path)) out[instance] = out[instance] || listens;
    }
  }
  return out;
}

void Instances::look(Clock::time_point now) {
  const auto instances = found();
  for (const auto& [instance, listens] : instances) {
    Seen& one = seen_[instance];
    one.has_listened = one.has_listened || listens;
    if (listens || !one.has_listened) one.missing_since = kLives;
  }
  for (auto one = seen_.begin(); one != seen_.end();) {
    auto& [instance, seen] = *one;
    const auto is_found = instances.find(instance);
    const bool lives = is_found != instances.end() && (is_found->second || !seen.has_listened);
    if (!lives && seen.missing_since == kLives) seen.missing_since = now;
    const bool has_ended = !lives && now - seen.missing_since >= kMoment;
    if (has_ended) {
      for (const std::string& folder : folders_) {
        Endpoint::remove_stale(folder, cat(prefix_, instance), std::chrono::seconds(0));
      }
      last_end_ = std::max(last_end_, seen.missing_since);
    }
    one = has_ended ? seen_.erase(one) : std::next(one);
  }
}

}  // namespace devices
