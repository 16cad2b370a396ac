// The kubelet's PodResources, with one pod that has one device:
//
//   pod_resources SOCKET NAMESPACE NAME RESOURCE DEVICE
//
// It writes a line when it listens. A kubelet is a compiled program, and that of the tests is not:
// an answer of it takes a millisecond longer, a third of what scripts/bench devices allows.
#include <grpcpp/grpcpp.h>
#include <podresources.grpc.pb.h>

#include <cstdio>
#include <string>

namespace {

class Lister final : public v1::PodResourcesLister::Service {
 public:
  explicit Lister(char** pod) {
    pod_.set_namespace_(pod[0]);
    pod_.set_name(pod[1]);
    auto* const devices = pod_.add_containers()->add_devices();
    devices->set_resource_name(pod[2]);
    devices->add_device_ids(pod[3]);
  }
  grpc::Status List(grpc::ServerContext* /*context*/,
                    const v1::ListPodResourcesRequest* /*request*/,
                    v1::ListPodResourcesResponse* answer) override {
    *answer->add_pod_resources() = pod_;
    return grpc::Status::OK;
  }
  grpc::Status Get(grpc::ServerContext* /*context*/, const v1::GetPodResourcesRequest* request,
                   v1::GetPodResourcesResponse* answer) override {
    if (request->pod_name() != pod_.name() || request->pod_namespace() != pod_.namespace_()) {
      return {grpc::StatusCode::UNKNOWN, "pod not found"};
    }
    *answer->mutable_pod_resources() = pod_;
    return grpc::Status::OK;
  }

 private:
  v1::PodResources pod_;
};

}  // namespace

int main(int count, char** words) {
  if (count != 6) return 2;
  Lister lister(words + 2);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(std::string("unix:") + words[1], grpc::InsecureServerCredentials());
  builder.RegisterService(&lister);
  const auto server = builder.BuildAndStart();
  if (!server) return 1;
  std::puts("ready");
  std::fflush(stdout);
  server->Wait();
}
