#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "libcni/config/key.h"
#include "libcni/plugin/request.h"
#include "netlink/types/ip.h"

namespace bandwidth {

/// Where what a pod sends is held back.
enum class EgressMode {
  kIfb,  ///< on the node, in a device of its own
  kPod,  ///< in the pod, in a queue of its interface
  kEdt   ///< in the pod, by departure times
};

/// What waits for the token bucket.
enum class Queue {
  kFair,  ///< each flow in turn (fq_codel)
  kFifo   ///< one after the other (bfifo)
};

/// One direction's limit.
struct Limit {
  std::uint64_t rate = 0;   ///< bits/s, at least 8
  std::uint64_t burst = 0;  ///< bits; 0 is none given: burst_time says
  bool operator==(const Limit&) const = default;
};

/// The networks at the other end of the pod's connections that a limit is for, or is not for.
struct Subnets {
  bool shaped = false;  ///< the list is of those with the limit, else of those without
  std::vector<netlink::Cidr> list = {};
  bool operator==(const Subnets&) const = default;
};

extern const cni::Manual kManual;

/// The network config of the bandwidth plugin; the README's table says what each key means.
struct Conf {
  std::optional<Limit> ingress, egress;  ///< to the pod, from the pod
  /// The runtime asks for no limit in words, where it could have said nothing.
  bool asks_for_none = false;
  EgressMode egress_mode = EgressMode::kIfb;
  std::optional<Queue> queue;                                ///< absent: what the kernel has
  std::optional<std::chrono::milliseconds> latency = {};     ///< the most that a packet waits
  std::optional<std::chrono::milliseconds> burst_time = {};  ///< what the bucket takes to fill
  Subnets subnets = {};                                      ///< none: all

  bool limits() const { return ingress || egress; }
  bool operator==(const Conf&) const = default;

  /// \throws cni::Error(kInvalidConfig) naming the key.
  static Conf parse(const cni::Request& request);
};

/// What DEL needs, read so that nothing wrong in the config keeps a pod from being taken down.
struct DelConf {
  bool limits = true;  ///< false only where it is certain that none were asked for
  bool edt = true;     ///< false only where it is certain that it is another mode

  static DelConf parse(const cni::Request& request);
};

}  // namespace bandwidth
