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
  std::uint32_t limit = 0;   ///< bytes that may wait
  /// Bytes; larger packets are cut up before they wait. 0: only what the bucket does not hold.
  std::uint32_t largest = 0;
  bool operator==(const Shape&) const = default;

  /// The time in which what may wait has left.
  std::chrono::nanoseconds horizon() const;
};

/// The largest packet that a stack hands over for a link to cut up (GSO_LEGACY_MAX_SIZE of
/// linux/netdevice.h), with a link header.
inline constexpr std::uint32_t kLargestPacket = 65536 + 14;

/// The limit for a link. Without latency and burst_time the reference's arithmetic: the bucket
/// holds the burst, 25 ms of the rate may wait behind it. What does not fit into the kernel's 32
/// bits is the most that does. Where flows take turns (queue is not fifo), none takes more than a
/// millisecond, or a frame.
Shape shape_of(const Limit& limit, const Conf& conf, unsigned mtu, const netlink::tc::Ticks& ticks);

/// The same where the reference's arithmetic wrapped around at 32 bits: what the reference may have
/// installed.
Shape wrapped_shape_of(const Limit& limit, const netlink::tc::Ticks& ticks);

/// The token bucket of a shape.
netlink::tc::Tbf tbf_of(const Shape& shape);

/// fq_codel for what waits behind a shape. Its usual target, 5 ms, is less than a packet takes on a
/// slow link. With a latency the queue cannot grow beyond it. Nothing is left to the kernel, so
/// that it can be changed into what another shape needs.
netlink::tc::FqCodel fq_codel_of(const Shape& shape, const Conf& conf, unsigned mtu);

}  // namespace bandwidth
