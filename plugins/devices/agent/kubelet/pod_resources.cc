#include "plugins/devices/agent/kubelet/pod_resources.h"

#include <grpcpp/grpcpp.h>
#include <malloc.h>
#include <podresources.grpc.pb.h>

#include <algorithm>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "libcni/common/error.h"
#include "plugins/devices/agent/kubelet/limits.h"

namespace devices {

namespace {

// Containers may share a claim.
void add_claims(PodDevices& out, const v1::PodResources& pod, const std::string& driver) {
  for (const auto& container : pod.containers()) {
    for (const auto& claim : container.dynamic_resources()) {
      for (const auto& one : claim.claim_resources()) {
        if (one.driver_name() != driver) continue;
        ListedClaim listed{claim.claim_namespace(), claim.claim_name(), one.device_name(),
                           one.share_id()};
        if (std::ranges::find(out.claims, listed) == out.claims.end()) {
          out.claims.push_back(std::move(listed));
        }
      }
    }
  }
}

}  // namespace

// Containers of a pod may have devices of one resource, and one container several lists of it: of
// each NUMA node.
PodDevices devices_of(const v1::PodResources& pod, const Wanted& wanted) {
  std::map<std::string, std::set<std::string>> found;
  for (const auto& container : pod.containers()) {
    for (const auto& devices : container.devices()) {
      if (devices.device_ids().empty() || !wanted.has(devices.resource_name())) continue;
      found[devices.resource_name()].insert(devices.device_ids().begin(),
                                            devices.device_ids().end());
    }
  }
  PodDevices out{.space = pod.namespace_(), .name = pod.name(), .devices = {}};
  for (const auto& [resource, ids] : found)
    out.devices.push_back({resource, {ids.begin(), ids.end()}});
  if (!wanted.driver.empty()) add_claims(out, pod, wanted.driver);
  return out;
}

std::vector<PodDevices> devices_of(const v1::ListPodResourcesResponse& answer,
                                   const Wanted& wanted) {
  std::vector<PodDevices> out;
  for (const v1::PodResources& pod : answer.pod_resources()) {
    out.push_back(devices_of(pod, wanted));
  }
  return out;
}

namespace {

using cni::cat;
using grpc::Status;
using grpc::StatusCode;
using std::chrono::milliseconds;

constexpr milliseconds kListDeadline{5'000};
constexpr milliseconds kFirstBackOff{100};
constexpr milliseconds kOfACall{25};  // one call in this time
constexpr int kBurstOfCalls = 5;
constexpr std::chrono::minutes kWithoutGet{
    10};  // until Get is tried again: the kubelet may be another version

// gRPC has one code for a kubelet that is over its limit and for an answer that is over ours.
bool is_too_large(const Status& status) {
  return status.error_message().find("larger than max") != std::string::npos;
}

bool is_over_limit(const Status& status) {
  return status.error_code() == StatusCode::RESOURCE_EXHAUSTED && !is_too_large(status);
}

bool has_no_get(const Status& status) {
  return status.error_code() == StatusCode::UNIMPLEMENTED ||
         status.error_message().find("disabled") != std::string::npos;  // by its feature gate
}

// A kubelet whose feature gate is off answers with UNKNOWN, as it does for a pod that does not
// exist.
bool needs_list(const Status& status) {
  return status.error_code() == StatusCode::UNIMPLEMENTED ||
         status.error_code() == StatusCode::UNKNOWN || status.error_code() == StatusCode::NOT_FOUND;
}

// An answer may be empty.
std::optional<PodDevices> if_named(PodDevices pod, const std::string& space,
                                   const std::string& name) {
  if (pod.space != space || pod.name != name) return std::nullopt;
  return pod;
}

cni::Error error_of(const std::string& what, const Status& status) {
  const std::string hint =
      "the kubelet does not run, or its folder is another one (--kubelet-dir of patchbay-agent)";
  switch (status.error_code()) {
    case StatusCode::UNAVAILABLE:
    case StatusCode::CANCELLED:
      return {cni::Code::kTryAgainLater, cat(what, ": ", clean(status.error_message())), hint};
    case StatusCode::DEADLINE_EXCEEDED:
      return {cni::Code::kTryAgainLater, cat(what, ": the kubelet did not answer in 5 s")};
    case StatusCode::RESOURCE_EXHAUSTED:
      if (is_too_large(status)) {
        return {cni::Code::kInternal, cat(what, ": the answer is larger than 16 MiB")};
      }
      return {cni::Code::kTryAgainLater, cat(what, ": ", clean(status.error_message()))};
    default:
      return {cni::Code::kInternal,
              cat(what, ": ", clean(status.error_message()), " (gRPC status ",
                  std::to_string(static_cast<int>(status.error_code())), ")")};
  }
}

}  // namespace

PodResources::PodResources(const std::string& dir, Wanted wanted)
    : path_(cat(dir, "/pod-resources/kubelet.sock")), wanted_(std::move(wanted)) {}

std::shared_ptr<grpc::Channel> PodResources::channel() {
  const std::lock_guard hold(mutex_);
  if (!channel_) channel_ = channel_to(path_, kMaxPodResourcesBytes);
  return channel_;
}

// The next call connects at once: a channel that failed waits ever longer.
void PodResources::forget(const std::shared_ptr<grpc::Channel>& channel) {
  const std::lock_guard hold(mutex_);
  if (channel_ == channel) channel_.reset();
  no_get_until_ = {};
}

// When the call may be made: a bucket of kBurstOfCalls, which kOfACall fills by one.
PodResources::Clock::time_point PodResources::next_turn() {
  const std::lock_guard hold(mutex_);
  const auto now = Clock::now();
  full_ = std::max(full_, now) + kOfACall;
  return full_ - kBurstOfCalls * kOfACall;
}

// Makes the call, again while the kubelet is over its limit.
template <class Request, class Answer>
std::pair<Status, Answer> PodResources::ask(const char* what, Call<Request, Answer> call,
                                            const Request& request) {
  const auto deadline = Clock::now() + kListDeadline;
  for (milliseconds pause = kFirstBackOff;; pause *= 2) {
    std::this_thread::sleep_until(next_turn());
    const auto used = channel();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::max(deadline - Clock::now(), Clock::duration(milliseconds(1))));
    std::pair<Status, Answer> out;
    const auto stub = v1::PodResourcesLister::NewStub(used);
    const Status& status = out.first = ((*stub).*call)(&context, request, &out.second);
    if (status.error_code() == StatusCode::UNAVAILABLE) forget(used);
    const bool again = is_over_limit(status) && Clock::now() + pause < deadline;
    if (status.ok() || (!again && needs_list(status))) return out;
    if (!again) throw error_of(cat(what, " at '", path_, "'"), status);
    std::this_thread::sleep_for(pause);
  }
}

std::vector<PodDevices> PodResources::list() {
  std::vector<PodDevices> out;
  std::size_t size = 0;
  {
    const auto [status, answer] =
        ask("list the pods' devices", &Stub::List, v1::ListPodResourcesRequest());
    if (!status.ok()) throw error_of(cat("list the pods' devices at '", path_, "'"), status);
    size = answer.ByteSizeLong();
    out = devices_of(answer, wanted_);
  }
  constexpr std::size_t kLarge = 1 << 20;
  if (size > kLarge) ::malloc_trim(0);  // else it stays the agent's
  return out;
}

std::optional<PodDevices> PodResources::get(const std::string& space, const std::string& name) {
  bool has_get = true;
  {
    const std::lock_guard hold(mutex_);
    has_get = Clock::now() >= no_get_until_;
  }
  if (has_get) {
    v1::GetPodResourcesRequest request;
    request.set_pod_name(name);
    request.set_pod_namespace(space);
    const auto [status, answer] = ask("ask for a pod's devices", &Stub::Get, request);
    if (status.ok()) return if_named(devices_of(answer.pod_resources(), wanted_), space, name);
    if (has_no_get(status)) {
      const std::lock_guard hold(mutex_);
      no_get_until_ = Clock::now() + kWithoutGet;
    }
  }
  return pod_in(list(), space, name);
}

std::optional<PodDevices> pod_in(const std::vector<PodDevices>& listed, const std::string& space,
                                 const std::string& name) {
  std::optional<PodDevices> out;
  for (const PodDevices& one : listed) {
    auto found = if_named(one, space, name);
    if (found && out) {
      throw cni::Error(
          cni::Code::kTryAgainLater,
          cat("find pod '", space, "/", name, "' in PodResources: two pods have one name"),
          "an earlier one has not ended");
    }
    if (found) out = std::move(found);
  }
  return out;
}

}  // namespace devices
