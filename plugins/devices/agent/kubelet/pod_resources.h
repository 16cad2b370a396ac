#pragma once

#include <podresources.grpc.pb.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "plugins/devices/agent/promises.h"

namespace devices {

/// Whether devices of a resource are listed, and the driver of DRA whose are.
struct Wanted {
  std::function<bool(const std::string& resource)> has;
  std::string driver = {};  ///< empty: none
};

/// The devices that a pod has in an answer of PodResources, each once, and none of other resources.
PodDevices devices_of(const v1::PodResources& pod, const Wanted& wanted);
/// All pods, also those without such devices.
std::vector<PodDevices> devices_of(const v1::ListPodResourcesResponse& answer,
                                   const Wanted& wanted);

/// The pod of that name in a list. Empty: it is not there. \throws cni::Error: kTryAgainLater where
/// two pods have the name.
std::optional<PodDevices> pod_in(const std::vector<PodDevices>& listed, const std::string& space,
                                 const std::string& name);

/// The kubelet's PodResources, DIR/pod-resources/kubelet.sock: which pod has which devices.
/// Thread-safe; a call takes 5 s at most.
///
/// The kubelet answers 100 calls a second, with bursts of 10, to all its clients together. This one
/// makes at most 40 a second, and waits before it repeats a call that was over the limit.
class PodResources {
 public:
  /// \param wanted of a resource: whether its devices are listed. Others' may be megabytes.
  PodResources(const std::string& dir, Wanted wanted);

  /// The pods of the node, also those without such devices. None: the kubelet has just started, and
  /// has not reached the API server yet.
  /// \throws cni::Error: kTryAgainLater where the kubelet is absent, busy or slow, else kInternal.
  std::vector<PodDevices> list();
  /// One pod, by Get or, in a kubelet that has no Get, from the list. Empty: the kubelet does not
  /// know it. \throws as list(), and kTryAgainLater where two pods have the name.
  std::optional<PodDevices> get(const std::string& space, const std::string& name);

 private:
  using Clock = std::chrono::steady_clock;
  using Stub = v1::PodResourcesLister::Stub;
  template <class Request, class Answer>
  using Call = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Answer*);

  template <class Request, class Answer>
  std::pair<grpc::Status, Answer> ask(const char* what, Call<Request, Answer> call,
                                      const Request& request);
  std::shared_ptr<grpc::Channel> channel();
  void forget(const std::shared_ptr<grpc::Channel>& channel);
  Clock::time_point next_turn();

  const std::string path_;
  const Wanted wanted_;
  std::mutex mutex_;
  std::shared_ptr<grpc::Channel> channel_;
  Clock::time_point full_{};  ///< when the burst is whole again
  Clock::time_point no_get_until_{};
};

}  // namespace devices
