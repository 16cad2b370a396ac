#include "plugins/devices/agent/kubelet/device_plugin.h"

#include <functional>
#include <utility>
#include <vector>

#include "libcni/common/error.h"
#include "plugins/devices/agent/kubelet/clean.h"
#include "plugins/devices/agent/kubelet/requests.h"
#include "plugins/devices/agent/log.h"

namespace devices {

namespace {

using cni::cat;
using grpc::Status;
using grpc::StatusCode;
using Ids = google::protobuf::RepeatedPtrField<std::string>;

Status invalid(const std::string& text) { return {StatusCode::INVALID_ARGUMENT, text}; }

StatusCode code_of(cni::Code code) {
  switch (code) {
    case cni::Code::kInvalidConfig:
      return StatusCode::INVALID_ARGUMENT;
    case cni::Code::kTryAgainLater:
      return StatusCode::UNAVAILABLE;
    default:
      return StatusCode::INTERNAL;
  }
}

// Runs fn; what it throws is the status of the call.
Status as_status(const std::function<void()>& fn) {
  try {
    fn();
    return Status::OK;
  } catch (const cni::Error& e) {
    const std::string more = e.details().empty() ? "" : cat(": ", e.details());
    return {code_of(e.code()), clean(cat(e.what(), more))};
  } catch (const std::exception& e) {
    return {StatusCode::INTERNAL, clean(e.what())};
  }
}

std::vector<std::string> vector_of(const Ids& ids) { return {ids.begin(), ids.end()}; }

void write(Handout handout, v1beta1::ContainerAllocateResponse& out) {
  for (auto& [name, value] : handout.environment) (*out.mutable_envs())[name] = std::move(value);
  for (const Node& node : handout.nodes) {
    v1beta1::DeviceSpec& device = *out.add_devices();
    device.set_host_path(node.host_path);
    device.set_container_path(node.container_path);
    device.set_permissions(node.permissions);
  }
  for (std::string& name : handout.cdi) out.add_cdi_devices()->set_name(std::move(name));
}

Offered offered(const Resource& resource) {
  return {resource.name, [&feed = resource.feed](const std::string& id) { return feed.has(id); }};
}

Status allocate(const Resource& resource, const v1beta1::AllocateRequest& request,
                v1beta1::AllocateResponse& answer) {
  if (const auto wrong = wrong_in(request, offered(resource)); !wrong.empty())
    return invalid(wrong);
  return as_status([&] {
    for (const auto& container : request.container_requests()) {
      write(resource.core.allocate(resource.name, vector_of(container.device_ids())),
            *answer.add_container_responses());
    }
  });
}

Status prefer(const Resource& resource, const v1beta1::PreferredAllocationRequest& request,
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

grpc::ServerUnaryReactor* finish(grpc::CallbackServerContext* context, const Status& status) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

// Has the worker do it. A call whose caller has hung up meanwhile changes nothing.
grpc::ServerUnaryReactor* later(grpc::CallbackServerContext* context, const Resource& resource,
                                const char* what, std::function<Status()> work) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  const bool taken = resource.worker.post([context, reactor, &resource, what, work] {
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

grpc::ServerUnaryReactor* DevicePlugin::GetDevicePluginOptions(
    grpc::CallbackServerContext* context, const v1beta1::Empty* /*request*/,
    v1beta1::DevicePluginOptions* answer) {
  answer->set_get_preferred_allocation_available(true);
  return finish(context, Status::OK);
}

grpc::ServerWriteReactor<Feed::List>* DevicePlugin::ListAndWatch(
    grpc::CallbackServerContext* /*context*/, const v1beta1::Empty* /*request*/) {
  return resource_.feed.open(this);
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
