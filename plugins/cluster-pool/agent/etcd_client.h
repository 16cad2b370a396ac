#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "plugins/cluster-pool/agent/conf.h"

namespace etcdserverpb {
class RangeRequest;
class RangeResponse;
class TxnRequest;
class TxnResponse;
class WatchCreateRequest;
class WatchResponse;
}  // namespace etcdserverpb

/// Calls of etcd v3 by gRPC.
namespace block_agent {

/// Thread-safe. Endpoints are tried in turn within the deadline of a call, and files of
/// certificates and of the password are read again for each connection. A token that expired is
/// replaced. Everything throws cni::Error: kTryAgainLater if the same call may succeed later, and a
/// change may have been made then.
class EtcdClient {
 public:
  explicit EtcdClient(EtcdConf conf);
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  /// nullopt: the answer is larger than 16 MiB, and fewer keys have to be asked for.
  std::optional<etcdserverpb::RangeResponse> range(const etcdserverpb::RangeRequest& request);
  etcdserverpb::TxnResponse txn(const etcdserverpb::TxnRequest& request);

  /// Calls back for each answer of a watch. It ends by an error, or after some ten minutes, since a
  /// missed event would be for ever.
  using OnAnswer = std::function<void(const etcdserverpb::WatchResponse& answer)>;
  void watch(const etcdserverpb::WatchCreateRequest& request, const OnAnswer& on_answer);

  /// Ends all calls at once, and each later one. From any thread.
  void stop() noexcept;
  /// False: stop() was called meanwhile.
  bool wait(std::chrono::milliseconds pause);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace block_agent
