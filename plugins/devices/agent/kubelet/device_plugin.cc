#include "plugins/devices/agent/kubelet/device_plugin.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "libcni/common/error.h"
#include "plugins/devices/agent/kubelet/limits.h"
#include "plugins/devices/agent/log.h"

namespace devices {

namespace {

using cni::cat;
using Ids = google::protobuf::RepeatedPtrField<std::string>;

// Checks one list of a request. \param count of the ids of all its containers \param offered null:
// ids need not exist
std::string wrong_ids(const Ids& ids, std::size_t& count, const Offered* offered) {
  std::set<std::string> seen;
  count += static_cast<std::size_t>(ids.size());
  if (count > kMaxIds) return cat("more than ", std::to_string(kMaxIds), " device ids");
  for (const std::string& id : ids) {
    if (id.empty() || id.size() > kMaxId) {
      return cat("device id '", clean(id), "': expected 1 to 63 characters");
    }
    if (!seen.insert(id).second) return cat("device id '", clean(id), "' is listed twice");
    if (offered != nullptr && !offered->has(id)) {
      return cat("device '", clean(id), "' does not exist in resource '", offered->resource, "'");
    }
  }
  return {};
}

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

using grpc::Status;
using grpc::StatusCode;

Status invalid(const std::string& text) { return {StatusCode::INVALID_ARGUMENT, text}; }

StatusCode code_of(cni::Code code) {
  if (code == cni::Code::kInvalidConfig) return StatusCode::INVALID_ARGUMENT;
  return code == cni::Code::kTryAgainLater ? StatusCode::UNAVAILABLE : StatusCode::INTERNAL;
}

// Runs fn; what it throws is the status of the call.
Status as_status(const std::function<void()>& fn) try {
  cni::as_error(fn);
  return Status::OK;
} catch (const cni::Error& e) {
  const std::string more = e.details().empty() ? "" : cat(": ", e.details());
  return {code_of(e.code()), clean(cat(e.what(), more))};
}

std::vector<std::string> vector_of(const Ids& ids) { return {ids.begin(), ids.end()}; }

void write(Handout handout, v1beta1::ContainerAllocateResponse& out) {
  for (auto& [name, value] : handout.environment) (*out.mutable_envs())[name] = std::move(value);
  for (const std::string& path : handout.nodes) {
    v1beta1::DeviceSpec& device = *out.add_devices();
    device.set_host_path(path);
    device.set_container_path(path);
    device.set_permissions(kNodePermissions);
  }
  for (std::string& name : handout.cdi) out.add_cdi_devices()->set_name(std::move(name));
}

Offered offered(Resource& resource) {
  return {resource.name, [&feed = resource.feed](const std::string& id) { return feed.has(id); }};
}

// The kubelet may know a device of another instance of the agent, which has seen it earlier.
bool has_by_now(Resource& resource, const std::string& id) {
  if (resource.feed.has(id)) return true;
  resource.core.look_again();
  const auto offers = resource.core.offers(resource.name);
  return std::ranges::find(offers, id, &Offer::id) != offers.end();
}

Status allocate(Resource& resource, const v1beta1::AllocateRequest& request,
                v1beta1::AllocateResponse& answer) {
  std::string wrong;
  const auto has = [&](const std::string& id) { return has_by_now(resource, id); };
  const Status status = as_status([&] { wrong = wrong_in(request, {resource.name, has}); });
  if (!status.ok()) return status;
  if (!wrong.empty()) return invalid(wrong);
  return as_status([&] {
    for (const auto& container : request.container_requests()) {
      write(resource.core.allocate(resource.name, vector_of(container.device_ids())),
            *answer.add_container_responses());
    }
  });
}

Status prefer(Resource& resource, const v1beta1::PreferredAllocationRequest& request,
              v1beta1::PreferredAllocationResponse& answer) {
  if (const auto wrong = wrong_in(request); !wrong.empty()) return invalid(wrong);
  return as_status([&] {
    for (const auto& one : request.container_requests()) {
      const auto chosen = resource.core.preferred(
          resource.name, {.available = vector_of(one.available_device_ids()),
                          .required = vector_of(one.must_include_device_ids()),
                          .size = static_cast<std::size_t>(one.allocation_size())});
      auto& out = *answer.add_container_responses();
      for (const std::string& id : chosen) out.add_device_ids(id);
    }
  });
}

// Has the worker do it. A call whose caller has hung up meanwhile changes nothing.
grpc::ServerUnaryReactor* later(grpc::CallbackServerContext* context, Resource& resource,
                                const char* what, std::function<Status()>&& work) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const bool taken =
      resource.worker.post([context, reactor, &resource, what, work = std::move(work)] {
        if (context->IsCancelled()) return reactor->Finish(Status::CANCELLED);
        const Status status = work();
        if (!status.ok()) {
          log(Level::kError, what, {.resource = resource.name, .error = status.error_message()});
        }
        reactor->Finish(status);
      });
  if (!taken) {
    reactor->Finish({StatusCode::RESOURCE_EXHAUSTED, "too many calls wait for the agent"});
  }
  return reactor;
}

}  // namespace

grpc::ServerUnaryReactor* finish(grpc::CallbackServerContext* context, const Status& status) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

std::string wrong_in(const v1beta1::AllocateRequest& request, const Offered& offered) {
  std::string wrong = too_many(request.container_requests_size());
  std::size_t count = 0;
  for (const auto& one : request.container_requests()) {
    if (wrong.empty()) wrong = wrong_ids(one.device_ids(), count, &offered);
  }
  return wrong;
}

std::string wrong_in(const v1beta1::PreStartContainerRequest& request, const Offered& offered) {
  std::size_t count = 0;
  return wrong_ids(request.device_ids(), count, &offered);
}

std::string wrong_in(const v1beta1::PreferredAllocationRequest& request) {
  std::string wrong = too_many(request.container_requests_size());
  std::size_t count = 0;
  for (const auto& one : request.container_requests()) {
    if (wrong.empty()) wrong = wrong_ids(one.available_device_ids(), count, nullptr);
    if (wrong.empty()) wrong = wrong_ids(one.must_include_device_ids(), count, nullptr);
    if (wrong.empty()) wrong = wrong_size(one);
  }
  return wrong;
}

grpc::ServerUnaryReactor* DevicePlugin::GetDevicePluginOptions(
    grpc::CallbackServerContext* context, const v1beta1::Empty* /*request*/,
    v1beta1::DevicePluginOptions* answer) {
  answer->set_get_preferred_allocation_available(true);
  return finish(context, Status::OK);
}

grpc::ServerWriteReactor<Feed::List>* DevicePlugin::ListAndWatch(
    grpc::CallbackServerContext* /*context*/, const v1beta1::Empty* /*request*/) {
  return resource_.feed.streams().open(this);
}

grpc::ServerUnaryReactor* DevicePlugin::GetPreferredAllocation(
    grpc::CallbackServerContext* context, const v1beta1::PreferredAllocationRequest* request,
    v1beta1::PreferredAllocationResponse* answer) {
  return later(context, resource_, "choose preferred devices",
               [this, request, answer] { return prefer(resource_, *request, *answer); });
}

grpc::ServerUnaryReactor* DevicePlugin::Allocate(grpc::CallbackServerContext* context,
                                                 const v1beta1::AllocateRequest* request,
                                                 v1beta1::AllocateResponse* answer) {
  return later(context, resource_, "allocate devices",
               [this, request, answer] { return allocate(resource_, *request, *answer); });
}

// There is nothing to prepare: CNI ADD has moved the device when a container starts. The options
// say so, so that a kubelet does not call it.
grpc::ServerUnaryReactor* DevicePlugin::PreStartContainer(
    grpc::CallbackServerContext* context, const v1beta1::PreStartContainerRequest* request,
    v1beta1::PreStartContainerResponse* /*answer*/) {
  const std::string wrong = wrong_in(*request, offered(resource_));
  return finish(context, wrong.empty() ? Status::OK : invalid(wrong));
}

}  // namespace devices
