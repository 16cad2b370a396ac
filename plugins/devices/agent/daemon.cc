#include "plugins/devices/agent/daemon.h"

#include <malloc.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libcni/daemon/event_loop.h"
#include "libcni/daemon/service_manager.h"
#include "netlink/route/link_watch.h"
#include "plugins/devices/agent/dra/driver.h"
#include "plugins/devices/agent/dra/init_devices.h"
#include "plugins/devices/agent/dra/pod_specs.h"
#include "plugins/devices/agent/dra/slices/publisher.h"
#include "plugins/devices/agent/dra/slices/withdraw.h"
#include "plugins/devices/agent/dra/status/claim_status.h"
#include "plugins/devices/agent/kubelet/kubelet.h"
#include "plugins/devices/agent/kubelet/limits.h"
#include "plugins/devices/agent/kubelet/pod_resources.h"
#include "plugins/devices/agent/log.h"
#include "plugins/devices/agent/nri/watch.h"
#include "plugins/devices/agent/privileges.h"
#include "plugins/devices/agent/socket/server.h"

namespace devices {

namespace {

using std::chrono::milliseconds;

// Drivers are bound without a message of netlink, and routes come and go by the thousand. Pods end
// without a message, too.
constexpr milliseconds kSlowPoll{30'000};
// Pods that start make links in bursts: a refresh is for all of them.
constexpr milliseconds kBurst{200};

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

  // After Allocate, or the end of a sandbox. From any thread. False: it is awake, and has not asked
  // yet.
  bool wake() {
    if (is_awake_.exchange(true)) return false;
    loop_.post([this] {
      pause_ = kFirst;
      if (due_ > cni::EventLoop::now() + kFirst) next();
    });
    return true;
  }

 private:
  static constexpr milliseconds kFirst{100}, kLast{5'000};  // after Allocate

  void next() {
    due_ = cni::EventLoop::now() + pause_;
    loop_.at(due_, this, [this] { look(); });
  }
  void look() {
    is_awake_ = false;
    const milliseconds before = std::exchange(pause_, kSlowPoll);
    next();  // also if it fails
    if (!has_unclaimed()) return;
    pause_ = std::clamp(2 * before, kFirst, kLast);
    next();
  }

  // Whether a device is promised to a pod that is not known yet.
  bool has_unclaimed() try {
    const Moment now = moment_now();
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
  std::atomic<bool> is_awake_ = false;
  cni::EventLoop loop_;
  std::thread thread_;
};

// A pod whose sandbox has ended may be gone: the core is not told so, it only looks earlier than it
// would, at what the kubelet says. Null: not configured.
std::unique_ptr<nri::SandboxWatch> watch_sandboxes(const std::string& socket, Core& core,
                                                   Attention& attention) {
  if (socket.empty()) return nullptr;
  return std::make_unique<nri::SandboxWatch>(socket, [&](const Pod& pod) {
    if (!core.concerns(pod) || !attention.wake()) return;
    log(Level::kInfo, "look at devices, because a sandbox ended", {.pod = pod.str()});
  });
}

/// What DRA needs. Nothing without it in the config: no client of the API server either.
class DraSide {
 public:
  DraSide(Core& core, const Paths& paths) {
    const Pools& pools = core.pools();
    if (!pools.dra) return;
    core.note_slices({});
    slices_ = std::make_unique<dra::SlicePublisher>(
        dra::access_of(*pools.dra), dra::Publisher{pools.dra->driver, pools.dra->node}, pools,
        dra::SlicePublisher::Surroundings{
            .stock = [&core] { return core.stock(); },
            .published = [&core](const dra::SliceState& state) { core.note_slices(state); }});
    driver_ = std::make_unique<dra::Driver>(core, paths.kubelet_dir, paths.plugin_dir);
    status_ = std::make_unique<dra::ClaimStatus>(*pools.dra, paths.places.ledger);
    core.on_refresh([this] {
      slices_->wake();
      driver_->wake();
    });
  }

 private:
  std::unique_ptr<dra::SlicePublisher> slices_;
  std::unique_ptr<dra::Driver> driver_;
  std::unique_ptr<dra::ClaimStatus> status_;
};

Wanted wanted_by(Core& core) {
  return {.has = [&core](const std::string& resource) { return core.has_resource(resource); },
          .driver = core.pools().dra.value_or(Dra{.driver = ""}).driver};
}

// Nothing without claims.
std::unique_ptr<dra::PodSpecs> pod_specs_of(Core& core) {
  if (!core.pools().dra) return nullptr;
  auto out = std::make_unique<dra::PodSpecs>(*core.pools().dra);
  core.know_pods([&specs = *out](const Pod& pod) { return specs.asks_for_none(pod); });
  return out;
}

// Nothing where all pools are those of DRA, whose claims name their pod.
std::unique_ptr<dra::InitDevices> init_devices_of(Core& core, const std::string& ledger) {
  const Pools& pools = core.pools();
  if (!pools.dra || std::ranges::none_of(pools.pools, &Pool::device_plugin)) return nullptr;
  return std::make_unique<dra::InitDevices>(core, *pools.dra, ledger);
}

Unlisted unlisted_by(dra::InitDevices* devices) {
  if (devices == nullptr) return {};
  return [devices](const Pod& pod, const std::vector<Owned>& listed) {
    return devices->of(pod, listed);
  };
}

// Before there are threads.
void set_up(cni::EventLoop& loop) {
  ::mallopt(M_ARENA_MAX, 1);  // its threads wait most of the time: an arena of each costs megabytes
  cni::log_notes();
  take_library_logs();
  ::signal(SIGPIPE, SIG_IGN);
  loop.stop_on_signals();
  drop_capabilities();
}

// Until a signal.
void run(cni::EventLoop& loop) {
  log(Level::kInfo, "start");
  cni::notify_service_manager("READY=1");
  loop.run([](const std::exception& e) { log(Level::kError, "serve", {.error = e.what()}); });
  cni::notify_service_manager("STOPPING=1");
  log(Level::kInfo, "stop");
}

}  // namespace

void serve_alone(const StartBeside& beside) {
  cni::EventLoop loop;
  set_up(loop);
  const auto other = beside();
  run(loop);
}

void serve(Pools pools, const Paths& paths, const StartBeside& beside) {
  cni::EventLoop loop;
  set_up(loop);
  const auto other = beside ? beside() : nullptr;
  const netlink::LinkWatch links;  // before the first look
  Places places = paths.places;
  places.pods = paths.kubelet_dir + "/pods";
  Core core(std::move(pools), std::move(places));
  PodResources pods(paths.kubelet_dir, wanted_by(core));
  Attention attention(core, pods);
  core.on_allocate([&attention] { attention.wake(); });
  const auto specs = pod_specs_of(core);
  const auto init_devices = init_devices_of(core, paths.places.ledger);
  const SocketServer server(paths.socket, core, pods, unlisted_by(init_devices.get()));
  const Kubelet kubelet(core, paths.kubelet_dir);
  const DraSide dra(core, paths);
  const auto sandboxes = watch_sandboxes(paths.nri_socket, core, attention);
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
  run(loop);
}

}  // namespace devices
