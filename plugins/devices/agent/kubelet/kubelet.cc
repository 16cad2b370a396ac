#include "plugins/devices/agent/kubelet/kubelet.h"

#include <atomic>
#include <deque>
#include <utility>
#include <vector>

#include "libcni/common/error.h"
#include "plugins/devices/agent/kubelet/limits.h"
#include "plugins/devices/agent/kubelet/registrar.h"
#include "plugins/devices/agent/log.h"

namespace devices {

struct Kubelet::State {
  explicit State(Core& of) : core(of) {}

  // In the worker, as all that asks the core.
  void publish() {
    for (const auto& one : resources) {
      try {
        one.feed.publish(core.offers(one.name));
      } catch (const std::exception& e) {
        log(Level::kError, "list devices", {.resource = one.name, .error = e.what()});
      }
    }
  }

  Core& core;
  std::deque<Feed> feeds;
  std::vector<Resource> resources;
  std::atomic<bool> publishing = false;  // a job for that waits
  Worker worker{kMaxWaitingCalls};
  std::unique_ptr<Registrar> registrar;
};

Kubelet::Kubelet(Core& core, const std::string& dir) : state_(std::make_shared<State>(core)) {
  const auto names = core.resources();
  for (const std::string& name : names) {
    Feed& feed = state_->feeds.emplace_back();
    state_->resources.push_back({name, core, state_->worker, feed});
  }
  state_->publish();
  core.subscribe([weak = std::weak_ptr(state_)] {
    const auto state = weak.lock();
    if (!state || state->publishing.exchange(true)) return;
    state->worker.post_always([raw = state.get()] {
      raw->publishing = false;
      raw->publish();
    });
  });
  std::vector<const Resource*> all;
  for (const Resource& one : state_->resources) all.push_back(&one);
  const Folders folders{cni::cat(dir, "/device-plugins"), cni::cat(dir, "/plugins_registry")};
  state_->registrar = std::make_unique<Registrar>(folders, std::move(all));
}

// The endpoints wait for calls that wait for the worker.
Kubelet::~Kubelet() {
  state_->registrar.reset();
  state_->worker.stop();
}

}  // namespace devices
