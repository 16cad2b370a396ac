#include "plugins/devices/agent/daemon.h"

#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "libcni/daemon/event_loop.h"
#include "libcni/daemon/service_manager.h"
#include "netlink/route/link_watch.h"
#include "netlink/types/fd.h"
#include "plugins/devices/agent/kubelet/kubelet.h"
#include "plugins/devices/agent/kubelet/limits.h"
#include "plugins/devices/agent/kubelet/pod_resources.h"
#include "plugins/devices/agent/log.h"
#include "plugins/devices/agent/socket/server.h"

namespace devices {

namespace {

using std::chrono::milliseconds;

// Drivers are bound without a message of netlink, and routes come and go by the thousand. Pods end
// without a message, too.
constexpr milliseconds kSlowPoll{30'000};
// Pods that start make links in bursts: a refresh is for all of them.
constexpr milliseconds kBurst{200};

// Files and sockets that it needs are root's, as it is; links are read without any capability. The
// plugin moves devices, this process never does.
void drop_capabilities() noexcept {
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  for (unsigned long one = 0; ::prctl(PR_CAPBSET_READ, one, 0, 0, 0) >= 0; ++one) {
    ::prctl(PR_CAPBSET_DROP, one, 0, 0, 0);
  }
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct none[2] = {};
  if (::syscall(SYS_capset, &header, none) != 0) {
    log(Level::kWarning, "drop capabilities", {.error = netlink::errno_text(errno)});
  }
}

// Asks PodResources whose the devices are, and tells the core: every 30 s, and soon after each
// Allocate, until the pod is known. In a thread of its own, because the kubelet may take seconds.
class Attention {
 public:
  Attention(Core& core, PodResources& pods)
      : core_(core), pods_(pods), thread_([this] {
          next();
          loop_.run([](const std::exception& e) {
            log(Level::kError, "list pods", {.error = e.what()});
          });
        }) {}
  ~Attention() {
    loop_.stop();
    thread_.join();
  }

  // After Allocate. From any thread.
  void wake() {
    loop_.post([this] {
      pause_ = kFirst;
      if (due_ > cni::EventLoop::now() + kFirst) next();
    });
  }

 private:
  static constexpr milliseconds kFirst{100}, kLast{5'000};  // after Allocate

  void next() {
    due_ = cni::EventLoop::now() + pause_;
    loop_.at(due_, this, [this] { look(); });
  }
  void look() {
    const milliseconds before = std::exchange(pause_, kSlowPoll);
    next();  // also if it fails
    if (!has_unclaimed()) return;
    pause_ = std::clamp(2 * before, kFirst, kLast);
    next();
  }

  // Whether a device is promised to a pod that is not known yet.
  bool has_unclaimed() try {
    const auto now = static_cast<std::int64_t>(std::time(nullptr));
    const bool out = core_.reconcile(pods_.list(), now);
    last_error_.clear();
    return out;
  } catch (const std::exception& e) {  // a kubelet that is absent for hours is one line of the log
    if (last_error_ != e.what()) log(Level::kWarning, "list pods", {.error = e.what()});
    last_error_ = e.what();
    return core_.has_unclaimed();
  }

  Core& core_;
  PodResources& pods_;
  milliseconds pause_{0};
  cni::BootTime due_{};
  std::string last_error_;
  cni::EventLoop loop_;
  std::thread thread_;
};

}  // namespace

void serve(Pools pools, const Paths& paths) {
  cni::log_notes();
  take_library_logs();
  ::signal(SIGPIPE, SIG_IGN);
  cni::EventLoop loop;
  loop.stop_on_signals();  // before there are threads
  drop_capabilities();
  const netlink::LinkWatch links;  // before the first look
  Places places = paths.places;
  places.pods = paths.kubelet_dir + "/pods";
  Core core(std::move(pools), std::move(places));
  PodResources pods(paths.kubelet_dir,
                    [&core](const std::string& resource) { return core.has_resource(resource); });
  Attention attention(core, pods);
  core.on_allocate([&attention] { attention.wake(); });
  const SocketServer server(paths.socket, core, pods);
  const Kubelet kubelet(core, paths.kubelet_dir);
  bool is_near = false;  // a refresh, for a burst of changes
  const std::function<void(milliseconds)> refresh_in = [&](milliseconds pause) {
    loop.after(pause, &is_near, [&] {
      is_near = false;
      refresh_in(kSlowPoll);
      core.refresh();
    });
  };
  loop.watch(links.fd(), [&] {
    links.drain();
    if (!std::exchange(is_near, true)) refresh_in(kBurst);
  });
  refresh_in(kSlowPoll);
  log(Level::kInfo, "start");
  cni::notify_service_manager("READY=1");
  loop.run([](const std::exception& e) { log(Level::kError, "serve", {.error = e.what()}); });
  cni::notify_service_manager("STOPPING=1");
  log(Level::kInfo, "stop");
}

}  // namespace devices
