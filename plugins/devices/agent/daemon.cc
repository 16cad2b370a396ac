#include "plugins/devices/agent/daemon.h"

#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string_view>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/common/unix_socket.h"
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

// Descriptor of the signals that end the daemon, for all threads that are made from now on.
netlink::Fd signals_to_stop() {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  netlink::Fd out(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!out) throw netlink::Error("wait for signals", errno);
  return out;
}

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

void notify(std::string_view state) noexcept try {
  cni::notify_service_manager(state);
} catch (const std::exception& e) {
  log(Level::kWarning, "notify the service manager", {.error = e.what()});
}

void refresh(Core& core) noexcept {
  try {
    core.refresh();
  } catch (const std::exception& e) {
    log(Level::kError, "look at the node", {.error = e.what()});
  }
}

// Until a signal comes.
void watch_links(Core& core, const netlink::Fd& signals, const netlink::LinkWatch& links) {
  for (;;) {
    pollfd ready[] = {{signals.get(), POLLIN, 0}, {links.fd(), POLLIN, 0}};
    const int count = ::poll(ready, 2, static_cast<int>(kSlowPoll.count()));
    if (count < 0 && errno != EINTR) throw netlink::Error("wait for changes of links", errno);
    if (ready[0].revents != 0) return;
    if (ready[1].revents != 0) {
      if (::poll(ready, 1, static_cast<int>(kBurst.count())) > 0) return;
      links.drain();
    }
    refresh(core);
  }
}

}  // namespace

void serve(Pools pools, const Options& options) {
  cni::send_notes_to([](std::string_view text) noexcept { log(Level::kWarning, text); });
  take_library_logs();
  const netlink::Fd signals = signals_to_stop();
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
  log(Level::kInfo, "start");
  notify("READY=1");
  watch_links(core, signals, links);
  notify("STOPPING=1");
  log(Level::kInfo, "stop");
}

}  // namespace devices
