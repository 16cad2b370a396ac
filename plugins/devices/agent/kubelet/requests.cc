#include "plugins/devices/agent/kubelet/requests.h"

#include <set>

#include "libcni/common/error.h"
#include "plugins/devices/agent/kubelet/clean.h"
#include "plugins/devices/agent/kubelet/limits.h"

namespace devices {

namespace {

using cni::cat;
using Ids = google::protobuf::RepeatedPtrField<std::string>;

// Counts the ids of a request, over all its containers.
class IdCounter {
 public:
  // Of one list. \param offered null: ids need not exist
  std::string wrong_in(const Ids& ids, const Offered* offered) {
    std::set<std::string> seen;
    count_ += static_cast<std::size_t>(ids.size());
    if (count_ > kMaxIds) return cat("more than ", std::to_string(kMaxIds), " device ids");
    for (const std::string& id : ids) {
      if (id.empty() || id.size() > kMaxIdLength) {
        return cat("device id '", clean(id), "': expected 1 to 63 characters");
      }
      if (!seen.insert(id).second) return cat("device id '", clean(id), "' is listed twice");
      if (offered != nullptr && !offered->has(id)) {
        return cat("device '", clean(id), "' does not exist in resource '", offered->resource, "'");
      }
    }
    return {};
  }

 private:
  std::size_t count_ = 0;
};

std::string too_many(int containers) {
  if (static_cast<std::size_t>(containers) <= kMaxContainers) return {};
  return cat("more than ", std::to_string(kMaxContainers), " containers");
}

std::string wrong_size(const v1beta1::ContainerPreferredAllocationRequest& request) {
  const int least = request.must_include_device_ids_size();
  const int most = request.available_device_ids_size();
  if (request.allocation_size() >= least && request.allocation_size() <= most) return {};
  return cat("allocation_size ", std::to_string(request.allocation_size()),
             ": expected an integer from ", std::to_string(least),
             " (devices that must be included) to ", std::to_string(most), " (available devices)");
}

}  // namespace

std::string wrong_in(const v1beta1::AllocateRequest& request, const Offered& offered) {
  std::string wrong = too_many(request.container_requests_size());
  IdCounter count;
  for (const auto& one : request.container_requests()) {
    if (wrong.empty()) wrong = count.wrong_in(one.device_ids(), &offered);
  }
  return wrong;
}

std::string wrong_in(const v1beta1::PreStartContainerRequest& request, const Offered& offered) {
  return IdCounter().wrong_in(request.device_ids(), &offered);
}

std::string wrong_in(const v1beta1::PreferredAllocationRequest& request) {
  std::string wrong = too_many(request.container_requests_size());
  IdCounter count;
  for (const auto& one : request.container_requests()) {
    if (wrong.empty()) wrong = count.wrong_in(one.available_device_ids(), nullptr);
    if (wrong.empty()) wrong = count.wrong_in(one.must_include_device_ids(), nullptr);
    if (wrong.empty()) wrong = wrong_size(one);
  }
  return wrong;
}

}  // namespace devices
