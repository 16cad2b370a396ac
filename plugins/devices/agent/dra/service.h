#pragma once

#include <dra_v1.grpc.pb.h>
#include <dra_v1beta1.grpc.pb.h>
#include <grpcpp/grpcpp.h>

#include "plugins/devices/agent/dra/preparer.h"
#include "plugins/devices/agent/worker.h"

namespace devices::dra {

/// What the services of all versions share.
struct Work {
  Preparer& preparer;
  Worker& preparing;  ///< waits for the API server
  Worker& releasing;  ///< waits for the ledger alone, and never for those
};

namespace v1 = k8s::io::kubelet::pkg::apis::dra::v1;
namespace v1beta1 = k8s::io::kubelet::pkg::apis::dra::v1beta1;

/// DRAPlugin of kubelets from 1.34. gRPC's threads only look at a request.
class DraPlugin final : public v1::DRAPlugin::CallbackService {
 public:
  explicit DraPlugin(Work& work) : work_(work) {}

  grpc::ServerUnaryReactor* NodePrepareResources(grpc::CallbackServerContext* context,
                                                 const v1::NodePrepareResourcesRequest* request,
                                                 v1::NodePrepareResourcesResponse* answer) override;
  grpc::ServerUnaryReactor* NodeUnprepareResources(
      grpc::CallbackServerContext* context, const v1::NodeUnprepareResourcesRequest* request,
      v1::NodeUnprepareResourcesResponse* answer) override;

 private:
  Work& work_;
};

/// The same of earlier kubelets.
class DraPluginBeta final : public v1beta1::DRAPlugin::CallbackService {
 public:
  explicit DraPluginBeta(Work& work) : work_(work) {}

  grpc::ServerUnaryReactor* NodePrepareResources(
      grpc::CallbackServerContext* context, const v1beta1::NodePrepareResourcesRequest* request,
      v1beta1::NodePrepareResourcesResponse* answer) override;
  grpc::ServerUnaryReactor* NodeUnprepareResources(
      grpc::CallbackServerContext* context, const v1beta1::NodeUnprepareResourcesRequest* request,
      v1beta1::NodeUnprepareResourcesResponse* answer) override;

 private:
  Work& work_;
};

}  // namespace devices::dra
