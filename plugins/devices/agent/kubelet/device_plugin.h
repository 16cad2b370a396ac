#pragma once

#include <deviceplugin.grpc.pb.h>
#include <deviceplugin.pb.h>

#include <functional>
#include <string>

#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/kubelet/feed.h"
#include "plugins/devices/agent/worker.h"

namespace devices {

/// The resource that is asked, and whether it has a device.
struct Offered {
  const std::string& resource;
  std::function<bool(const std::string& id)> has;
};

/// Each id exists, and is listed once for a container.
std::string wrong_in(const v1beta1::AllocateRequest& request, const Offered& offered);
std::string wrong_in(const v1beta1::PreStartContainerRequest& request, const Offered& offered);
/// Ids that do not exist are allowed: the kubelet may know a device longer than the node has it.
std::string wrong_in(const v1beta1::PreferredAllocationRequest& request);

/// Ends a call at once.
grpc::ServerUnaryReactor* finish(grpc::CallbackServerContext* context, const grpc::Status& status);

/// A resource and its means, which outlive its services.
struct Resource {
  Resource(std::string of, Core& by, Worker& in) : name(std::move(of)), core(by), worker(in) {}

  const std::string name;
  Core& core;
  Worker& worker;
  Feed feed = {};
};

/// The kubelet's calls for one resource. gRPC's threads only look at a request; the core works in
/// the worker.
class DevicePlugin final : public v1beta1::DevicePlugin::CallbackService {
 public:
  explicit DevicePlugin(Resource& resource) : resource_(resource) {}

  /// Ends its streams, which would last as long as the server.
  void end_streams() { resource_.feed.streams().end(this); }

  grpc::ServerUnaryReactor* GetDevicePluginOptions(grpc::CallbackServerContext* context,
                                                   const v1beta1::Empty* request,
                                                   v1beta1::DevicePluginOptions* answer) override;
  grpc::ServerWriteReactor<Feed::List>* ListAndWatch(grpc::CallbackServerContext* context,
                                                     const v1beta1::Empty* request) override;
  grpc::ServerUnaryReactor* GetPreferredAllocation(
      grpc::CallbackServerContext* context, const v1beta1::PreferredAllocationRequest* request,
      v1beta1::PreferredAllocationResponse* answer) override;
  grpc::ServerUnaryReactor* Allocate(grpc::CallbackServerContext* context,
                                     const v1beta1::AllocateRequest* request,
                                     v1beta1::AllocateResponse* answer) override;
  grpc::ServerUnaryReactor* PreStartContainer(grpc::CallbackServerContext* context,
                                              const v1beta1::PreStartContainerRequest* request,
                                              v1beta1::PreStartContainerResponse* answer) override;

 private:
  Resource& resource_;
};

}  // namespace devices
