#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "netlink/route/link.h"
#include "netlink/route/socket.h"

/// Shapes egress traffic by earliest departure times. An eBPF program at the egress hook (clsact)
/// of the container interface writes the departure time into each packet; the root qdisc fq queues
/// it until then. The sender notices the limit: TCP queues little, UDP waits for its socket.
/// Everything is removed with the interface; nothing is pinned.
namespace bandwidth::edt {

/// A pod's egress limit. Bytes count as in tc-tbf(8): with link headers, and with those of every
/// segment that a large packet is cut into.
struct Limit {
  std::uint64_t rate = 0;   ///< bytes/s; at least 1
  std::uint64_t burst = 0;  ///< bytes that an idle pod may send at once
  /// Maximum time in the queue; a packet that would leave later is dropped. At most an hour.
  std::chrono::nanoseconds horizon{};
  bool operator==(const Limit&) const = default;
};

/// Sets or changes the limit. One message replaces the old program, and the new one continues with
/// its departure times, so that packets keep their order. inside is in pod's namespace.
/// \throws netlink::Error, with the verifier's last lines if it rejects the program;
/// cni::Error(kInvalidConfig) in a build without eBPF.
void add(netlink::RouteSocket& pod, const netlink::Link& inside, const Limit& limit);

/// Removes it with its queued packets; false if nothing of it existed. Other programs' filters
/// stay. Works also in a build without eBPF.
bool remove(netlink::RouteSocket& pod, const netlink::Link& inside);

/// The first difference to what add() set, or nothing.
std::optional<std::string> missing(netlink::RouteSocket& pod, const netlink::Link& inside,
                                   const Limit& limit);

/// The feature that this build or kernel lacks for add(), found by a trial in a new network
/// namespace; empty: it works.
std::optional<std::string> unusable();

}  // namespace bandwidth::edt
