// Messages of the kubelet: requests for devices, and answers of PodResources. The first byte
// selects which.
#include <set>

#include "plugins/devices/agent/kubelet/device_plugin.h"
#include "plugins/devices/agent/kubelet/limits.h"
#include "plugins/devices/agent/kubelet/pod_resources.h"
#include "tests/fuzz/fuzz.h"

namespace {

using fuzz::require;

bool is_wanted(const std::string& resource) { return resource == "a/b"; }

void check(const devices::PodDevices& pod) {
  require(pod.devices.size() <= 1, "a pod has devices of the wanted resource alone");
  if (pod.devices.empty()) return;
  const auto& [resource, ids] = pod.devices.front();
  require(is_wanted(resource) && !ids.empty(), "a resource in the list has devices");
  require(std::set(ids.begin(), ids.end()).size() == ids.size(), "no device is listed twice");
}

template <class Message, class Fn>
void with(std::string_view bytes, Fn fn) {
  Message message;
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) fn(message);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string resource = "a/b";
  const devices::Offered offered{resource, [](const std::string& id) { return id[0] == 'd'; }};
  std::string_view bytes = fuzz::text_of(data, size);
  if (bytes.empty()) return 0;
  const char which = bytes[0];
  bytes.remove_prefix(1);
  if (which == 'a') {
    with<v1beta1::AllocateRequest>(bytes, [&](const auto& request) {
      if (!wrong_in(request, offered).empty()) return;
      for (const auto& container : request.container_requests()) {
        for (const std::string& id : container.device_ids()) {
          require(offered.has(id) && id.size() <= devices::kMaxId, "a device exists");
        }
      }
    });
  } else if (which == 'p') {
    with<v1beta1::PreferredAllocationRequest>(bytes, [](const auto& request) {
      if (!devices::wrong_in(request).empty()) return;
      for (const auto& one : request.container_requests()) {
        require(one.allocation_size() >= 0, "a number of devices is none below 0");
      }
    });
  } else if (which == 's') {
    with<v1beta1::PreStartContainerRequest>(
        bytes, [&](const auto& request) { wrong_in(request, offered); });
  } else if (which == 'l') {
    with<v1::ListPodResourcesResponse>(bytes, [](const auto& answer) {
      for (const auto& pod : devices::devices_of(answer, {.has = is_wanted})) check(pod);
    });
  } else {
    with<v1::GetPodResourcesResponse>(bytes, [](const auto& answer) {
      check(devices::devices_of(answer.pod_resources(), {.has = is_wanted}));
    });
  }
  return 0;
}
