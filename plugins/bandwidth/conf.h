#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "libcni/config/key.h"
#include "libcni/plugin/request.h"
#include "netlink/types/ip.h"

namespace bandwidth {

/// The place that shapes egress traffic.
enum class EgressMode {
  kIfb,  ///< on an ifb device of the node
  kPod,  ///< in a qdisc of the container interface
  kEdt   ///< in the pod, by departure times
};

/// The qdisc below the token bucket.
enum class Queue {
  kFair,  ///< each flow in turn (fq_codel)
  kFifo   ///< one after the other (bfifo)
};

/// One direction's limit.
struct Limit {
  std::uint64_t rate = 0;   ///< bits/s, at least 8
  std::uint64_t burst = 0;  ///< bits; 0 is unset: burst_time decides
  bool operator==(const Limit&) const = default;
};

/// The networks at the other end of the pod's connections that a limit is for, or is not for.
struct Subnets {
  bool shaped = false;  ///< the list has the limit, else all others have it
  std::vector<netlink::Cidr> list = {};
  bool operator==(const Subnets&) const = default;
};

extern const cni::Manual kManual;

/// The network config of the bandwidth plugin; the README's table says what each key means.
struct Conf {
  std::optional<Limit> ingress, egress;  ///< to the pod, from the pod
  /// The runtime requests no limit explicitly, by rates of 0.
  bool asks_for_none = false;
  EgressMode egress_mode = EgressMode::kIfb;
  std::optional<Queue> queue;                                ///< absent: detected
  std::optional<std::chrono::milliseconds> latency = {};     ///< maximum time in the queue
  std::optional<std::chrono::milliseconds> burst_time = {};  ///< time to fill the bucket
  Subnets subnets = {};                                      ///< none: all

  bool limits() const { return ingress || egress; }
  bool operator==(const Conf&) const = default;

  /// \throws cni::Error(kInvalidConfig) naming the key.
  static Conf parse(const cni::Request& request);
};

/// The keys that DEL needs. An invalid config prevents no DEL.
struct DelConf {
  bool limits = true;  ///< false only if none were requested for certain
  bool edt = true;     ///< false only if another mode was set for certain

  static DelConf parse(const cni::Request& request);
};

}  // namespace bandwidth
