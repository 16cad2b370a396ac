#pragma once

#include <deviceplugin.grpc.pb.h>

#include <string>

#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/kubelet/feed.h"
#include "plugins/devices/agent/kubelet/worker.h"

namespace devices {

/// What the service of a resource works with. All of it outlives the service.
struct Resource {
  std::string name;
  Core& core;
  Worker& worker;
  Feed& feed;
};

/// The kubelet's calls for one resource. gRPC's threads only look at a request; the core works in
/// the worker.
class DevicePlugin final : public v1beta1::DevicePlugin::CallbackService {
 public:
  explicit DevicePlugin(const Resource& resource) : resource_(resource) {}

  /// Ends its streams, which would last as long as the server.
  void end_streams() { resource_.feed.end(this); }

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
  const Resource& resource_;
};

}  // namespace devices
