#pragma once

#include <dra_health.grpc.pb.h>
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "plugins/devices/agent/kubelet/streams.h"

namespace devices::dra {

/// The streams of NodeWatchResources, which tell on each change how all devices are. Thread-safe.
class Health {
 public:
  using List = v1alpha1::NodeWatchResourcesResponse;

  /// \param pool of the ResourceSlices.
  explicit Health(std::string pool) : pool_(std::move(pool)) {}

  Streams<List>& streams() { return streams_; }
  /// \param healthy of each device, by its name in the ResourceSlices. \param now Unix time.
  void publish(const std::map<std::string, bool>& healthy, std::int64_t now);

 private:
  struct State {
    bool is_healthy = false;
    std::int64_t since = 0;
  };

  const std::string pool_;
  std::mutex mutex_;
  std::map<std::string, State> states_;
  Streams<List> streams_;
};

class HealthService final : public v1alpha1::DRAResourceHealth::CallbackService {
 public:
  explicit HealthService(Health& health) : health_(health) {}

  void end_streams() { health_.streams().end(this); }
  grpc::ServerWriteReactor<Health::List>* NodeWatchResources(
      grpc::CallbackServerContext* /*context*/,
      const v1alpha1::NodeWatchResourcesRequest* /*request*/) override {
    return health_.streams().open(this);
  }

 private:
  Health& health_;
};

}  // namespace devices::dra
