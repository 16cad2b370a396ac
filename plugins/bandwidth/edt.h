#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "netlink/route/link.h"
#include "netlink/route/socket.h"

/// Shapes what a pod sends by earliest departure times: an eBPF program at the egress of the pod's
/// own interface (clsact) writes into each packet when it may leave, and an fq root qdisc there
/// holds it until then. The sender feels its limit: TCP keeps little in the queue, UDP waits for
/// its socket. All of it goes with the interface; nothing is pinned.
namespace bandwidth::edt {

/// What a pod may send, counted as tc-tbf(8) counts: with link headers, and with those of every
/// segment that a large packet is cut into.
struct Limit {
  std::uint64_t rate = 0;   ///< bytes/s; at least 1
  std::uint64_t burst = 0;  ///< bytes that a pod which was idle may send at once
  /// The most that a packet waits: one that would leave later is dropped. At most an hour.
  std::chrono::nanoseconds horizon{};
  bool operator==(const Limit&) const = default;
};

/// Sets the limit, or changes it: the new program takes the old one's place in one message and goes
/// on with its departure times, so that packets keep their order. inside is in pod's namespace.
/// \throws netlink::Error, with the verifier's last lines where it refuses the program;
/// cni::Error(kInvalidConfig) in a build without eBPF.
void add(netlink::RouteSocket& pod, const netlink::Link& inside, const Limit& limit);

/// Takes it back, with what waits in the queue; false where nothing of it was there. Others'
/// filters stay. Works in a build without eBPF too.
bool remove(netlink::RouteSocket& pod, const netlink::Link& inside);

/// The first thing that is not as add() left it, or nothing.
std::optional<std::string> missing(netlink::RouteSocket& pod, const netlink::Link& inside,
                                   const Limit& limit);

/// What this build or kernel lacks for add(), found by trying it in a new network namespace;
/// nothing where it works.
std::optional<std::string> unusable();

}  // namespace bandwidth::edt
