#include "plugins/devices/agent/daemon.h"

#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "libcni/daemon/event_loop.h"
#include "libcni/daemon/service_manager.h"
#include "netlink/route/link_watch.h"
#include "netlink/types/fd.h"
#include "plugins/devices/agent/attention.h"
#include "plugins/devices/agent/kubelet/kubelet.h"
#include "plugins/devices/agent/kubelet/library_log.h"
#include "plugins/devices/agent/kubelet/pod_resources.h"
#include "plugins/devices/agent/log.h"
#include "plugins/devices/agent/socket/claims.h"
#include "plugins/devices/agent/socket/server.h"

namespace devices {

namespace {

using std::chrono::milliseconds;

// Drivers are bound without a message of netlink, and routes come and go by the thousand.
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

void refresh(Core& core) noexcept {
  try {
    core.refresh();
  } catch (const std::exception& e) {
    log(Level::kError, "look at the node", {.error = e.what()});
  }
}

// Looks at the node after changes of links, and now and then. What it is given outlives it.
class Refreshes {
 public:
  Refreshes(cni::EventLoop& loop, Core& core, const netlink::LinkWatch& links)
      : loop_(loop), core_(core) {
    loop_.watch(links.fd(), [this, &links] {
      links.drain();
      if (!std::exchange(is_near_, true)) next(kBurst);
    });
    next(kSlowPoll);
  }

 private:
  void next(milliseconds pause) {
    loop_.after(pause, this, [this] { look(); });
  }
  void look() {
    is_near_ = false;
    next(kSlowPoll);
    refresh(core_);
  }

  cni::EventLoop& loop_;
  Core& core_;
  bool is_near_ = false;
};

}  // namespace

void serve(Pools pools, const Options& options) {
  cni::log_notes();
  take_library_logs();
  ::signal(SIGPIPE, SIG_IGN);
  cni::EventLoop loop;
  loop.stop_on_signals();  // before there are threads
  drop_capabilities();
  const netlink::LinkWatch links;  // before the first look
  Places places = options.places;
  places.pods = options.kubelet_dir + "/pods";
  Core core(std::move(pools), std::move(places));
  PodResources pods(options.kubelet_dir,
                    [&core](const std::string& resource) { return core.has_resource(resource); });
  Attention attention(core, pods);
  core.on_allocate([&attention] { attention.wake(); });
  const Claims claims(core, pods);
  const SocketServer server(
      options.socket,
      {.at_once = [&claims](const Question& question) { return claims.at_once(question); },
       .later = [&claims](const Question& question) { return claims.later(question); }});
  const Kubelet kubelet(core, options.kubelet_dir);
  const Refreshes refreshes(loop, core, links);
  log(Level::kInfo, "start");
  cni::notify_service_manager("READY=1");
  loop.run([](const std::exception& e) { log(Level::kError, "serve", {.error = e.what()}); });
  cni::notify_service_manager("STOPPING=1");
  log(Level::kInfo, "stop");
}

}  // namespace devices
