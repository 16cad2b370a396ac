#include "plugins/devices/agent/dra/pod_specs.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <system_error>
#include <utility>

#include "kubernetes/answer.h"
#include "kubernetes/list_watch.h"
#include "kubernetes/path.h"
#include "libcni/common/error.h"
#include "plugins/devices/agent/dra/slices/withdraw.h"
#include "plugins/devices/agent/log.h"
#include "plugins/devices/agent/memory.h"

namespace devices::dra {

namespace {

using nlohmann::json;

// A pod has at most 1.5 MiB, as etcd takes them; a kubelet has some hundreds.
constexpr std::size_t kMaxPodBytes = 2U << 20;
constexpr std::size_t kMaxPods = 4'096;

bool is_empty_value(const json& value) {
  return value.is_null() || (value.is_structured() && value.empty());
}

const json& member(const json& object, const char* key) {
  static const json kNone;
  const auto found = object.find(key);
  return found == object.end() ? kNone : *found;
}

// Names of extended resources have a domain. Their claims are the scheduler's, which are not in the
// spec.
bool is_plain_list(const json& amounts) {
  if (is_empty_value(amounts)) return true;
  return amounts.is_object() && std::ranges::none_of(amounts.items(), [](const auto& one) {
           return one.key().find('/') != std::string::npos;
         });
}

bool is_plain_container(const json& container) {
  if (!container.is_object()) return false;
  const json& resources = member(container, "resources");
  if (is_empty_value(resources)) return true;
  return resources.is_object() && is_empty_value(member(resources, "claims")) &&
         is_plain_list(member(resources, "limits")) && is_plain_list(member(resources, "requests"));
}

}  // namespace

bool asks_for_no_device(const json& pod) {
  if (!pod.is_object()) return false;
  const json& spec = member(pod, "spec");
  if (!spec.is_object() || !member(spec, "containers").is_array()) return false;
  // A group of pods may have claims of its own.
  for (const char* const key : {"resourceClaims", "schedulingGroup", "workloadRef"}) {
    if (!is_empty_value(member(spec, key))) return false;
  }
  if (!is_plain_container(spec)) return false;  // resources of the pod as a whole
  return std::ranges::all_of(
      std::array{"containers", "initContainers", "ephemeralContainers"}, [&](const char* key) {
        const json& list = member(spec, key);
        return is_empty_value(list) ||
               (list.is_array() && std::ranges::all_of(list, is_plain_container));
      });
}

PodSpecs::PodSpecs(const Dra& dra)
    : node_(dra.node), client_(access_of(dra), {.line = kMaxPodBytes}) {}

PodSpecs::~PodSpecs() {
  client_.stop();
  if (thread_.joinable()) thread_.join();
}

bool PodSpecs::asks_for_none(const Pod& pod) {
  const std::lock_guard hold(mutex_);
  if (!thread_.joinable() && !client_.is_stopped()) {
    try {
      thread_ = std::thread([this] { follow(); });
    } catch (const std::system_error& e) {
      log(Level::kWarning, "watch pods", {.error = e.what()});
    }
  }
  const auto found = plain_.find(pod.uid);
  return found != plain_.end() && found->second == pod.str();
}

void PodSpecs::follow() {
  kubernetes::ListWatch watch(
      client_, kubernetes::Collection{"v1", "pods"}.path(),
      {{"fieldSelector", cni::cat("spec.nodeName=", node_)}},
      {.listed = [](const auto&) {},
       .changed = [this](const json& pod) { note(pod, asks_for_no_device(pod)); },
       .removed = [this](const json& pod) { note(pod, false); },
       .failed = [this](const std::exception& e, std::chrono::milliseconds) { note_error(e); }});
  watch.skip_lists();
  watch.run();
}

void PodSpecs::note(const json& pod, bool is_plain) {
  const std::string uid = kubernetes::metadata_of(pod, "uid");
  const Pod named{kubernetes::metadata_of(pod, "namespace"), kubernetes::metadata_of(pod, "name")};
  trim_after_much();
  const std::lock_guard hold(mutex_);
  error_.clear();
  if (uid.empty()) return;
  plain_.erase(uid);
  if (!is_plain) return;
  if (plain_.size() >= kMaxPods) plain_.clear();
  plain_.emplace(uid, named.str());
}

void PodSpecs::note_error(const std::exception& e) {
  if (client_.is_stopped()) return;
  {
    const std::lock_guard hold(mutex_);
    if (std::exchange(error_, e.what()) == e.what()) return;
  }
  log(Level::kWarning, "watch pods: those beside prepared claims wait for the kubelet meanwhile",
      {.error = e.what()});
}

}  // namespace devices::dra
