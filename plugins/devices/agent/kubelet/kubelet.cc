#include "plugins/devices/agent/kubelet/kubelet.h"

#include "libcni/common/error.h"
#include "plugins/devices/agent/kubelet/limits.h"
#include "plugins/devices/agent/log.h"

namespace devices {

Kubelet::Kubelet(Core& core, const std::string& dir) : core_(core), worker_(kMaxWaitingCalls) {
  for (const Pool& pool : core.pools().pools) {
    if (pool.device_plugin) resources_.emplace_back(pool.resource, core, worker_);
  }
  publish();
  core.subscribe([this] {
    if (publishing_.exchange(true)) return;
    worker_.post_always([this] {
      publishing_ = false;
      publish();
    });
  });
  registrar_.emplace(Folders{cni::cat(dir, "/device-plugins"), cni::cat(dir, "/plugins_registry")},
                     resources_);
}

// The endpoints wait for calls that wait for the worker.
Kubelet::~Kubelet() {
  core_.subscribe({});
  registrar_.reset();
  worker_.stop();
}

// In the worker, as all that asks the core.
void Kubelet::publish() {
  for (Resource& one : resources_) {
    attempt("list devices", one.name, [&] { one.feed.publish(core_.offers(one.name)); });
  }
}

}  // namespace devices
