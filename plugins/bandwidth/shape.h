#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "netlink/tc/htb_class.h"
#include "netlink/tc/qdisc.h"
#include "netlink/tc/ticks.h"
#include "plugins/bandwidth/conf.h"

namespace bandwidth {

/// A limit in the kernel's units, for one link.
struct Shape {
  std::uint64_t rate = 0;    ///< bytes/s
  std::uint32_t burst = 0;   ///< bytes that may leave at once
  std::uint32_t buffer = 0;  ///< the same in netlink::tc::Ticks: the time in which they are earned
  std::uint32_t limit = 0;   ///< bytes that may be queued
  /// Bytes; larger packets are split before they are queued. 0: only those larger than the bucket.
  std::uint32_t largest = 0;
  bool operator==(const Shape&) const = default;

  /// The time in which a full queue is sent.
  std::chrono::nanoseconds horizon() const;
};

/// The largest GSO packet (GSO_LEGACY_MAX_SIZE of
/// linux/netdevice.h), with a link header.
inline constexpr std::uint32_t kLargestPacket = 65536 + 14;

/// The limit for a link. Without latency and burst_time it is the reference plugin's arithmetic:
/// the bucket holds the burst, and 25 ms of the rate may be queued. Values are clamped to the
/// kernel's 32 bits. With fair queueing (queue is not fifo) a packet takes at most a millisecond,
/// or is one frame.
Shape shape_of(const Limit& limit, const Conf& conf, unsigned mtu, const netlink::tc::Ticks& ticks);

/// The same with the reference plugin's overflow at 32 bits: what that plugin may have set.
Shape wrapped_shape_of(const Limit& limit, const netlink::tc::Ticks& ticks);

/// The token bucket of a shape.
netlink::tc::Tbf tbf_of(const Shape& shape);

/// fq_codel below a shape. Its default target, 5 ms, is less than a packet takes on a slow link.
/// With a latency the queue cannot exceed it. All parameters are set, so that they can be changed
/// for another shape.
netlink::tc::FqCodel fq_codel_of(const Shape& shape, const Conf& conf, unsigned mtu);

}  // namespace bandwidth
