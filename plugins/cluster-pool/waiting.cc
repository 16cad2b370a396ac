#include "plugins/cluster-pool/waiting.h"

#include <poll.h>
#include <sys/inotify.h>

#include <algorithm>

#include "libcni/common/error.h"

namespace cluster_pool {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPoll{500};

}  // namespace

Waiting::Waiting(const blocks::Folder& folder, const leases::Store& store,
                 std::chrono::seconds most)
    : file_(cni::cat(store.network(), ".json")),
      end_(Clock::now() + most),
      watch_(IN_MOVED_TO | IN_CLOSE_WRITE | IN_DELETE),
      is_watched_(watch_.add(folder.path())) {
  is_watched_ = watch_.add(store.dir().path()) && is_watched_;
}

bool Waiting::is_worth_a_look() {
  const auto names = watch_.take();
  if (!names) return true;
  return std::ranges::any_of(*names, [&](const std::string& name) {
    return name == file_ || leases::ip_of(name).has_value();
  });
}

bool Waiting::next() {
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(end_ - Clock::now());
    if (left <= milliseconds(0)) return false;
    pollfd one{.fd = is_watched_ ? watch_.fd() : -1, .events = POLLIN, .revents = 0};
    const auto timeout = is_watched_ ? left : std::min(left, kPoll);
    const int ready = ::poll(&one, 1, static_cast<int>(timeout.count()));
    if (!is_watched_ && ready == 0) return true;
    if (ready > 0 && is_worth_a_look()) return true;
  }
}

}  // namespace cluster_pool
