#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "netlink/route/link.h"
#include "netlink/route/request.h"
#include "netlink/tc/handle.h"

namespace netlink::tc {

/// Token bucket filter, tc-tbf(8). It holds packets in a bfifo of limit bytes, until another qdisc
/// is put below it (parent MAJOR:1); then limit means nothing.
struct Tbf {
  std::uint64_t rate = 0;    ///< bytes/s
  std::uint32_t buffer = 0;  ///< the bucket, in Ticks of the rate
  std::uint32_t limit = 0;   ///< bytes that may wait
  /// Packets of more bytes, put together by TCP or a network card, are cut up before they wait: one
  /// would keep all others waiting for as long as it takes. 0: only those that the bucket does not
  /// hold. Less than a frame of the link loses what cannot be cut.
  std::uint32_t largest = 0;
  bool operator==(const Tbf&) const = default;
};
/// Whether replace() may change one into another: a packet that waits and is larger than the new
/// bucket would wait for ever, and all others behind it.
bool can_become(const Tbf& there, const Tbf& wanted);

/// Hierarchical token bucket, tc-htb(8); its classes are HtbClass. The kernel cannot change one:
/// replace() of one that is there is EINVAL.
struct Htb {
  std::uint16_t default_minor = 0;  ///< of the class of what no filter matches; 0 is not shaped
  bool operator==(const Htb&) const = default;
};

/// bfifo, tc-bfifo(8).
struct Fifo {
  std::uint32_t limit = 0;  ///< bytes
  bool operator==(const Fifo&) const = default;
};

/// tc-fq_codel(8). Absent is the kernel's default, or in replace() what it was.
struct FqCodel {
  std::optional<std::chrono::microseconds> target = {}, interval = {};
  std::optional<std::uint32_t> limit = {};    ///< packets
  std::optional<std::uint32_t> flows = {};    ///< cannot be changed: EINVAL
  std::optional<std::uint32_t> quantum = {};  ///< bytes
  std::optional<std::uint32_t> memory = {};   ///< bytes that the packets may take in memory
  std::optional<bool> ecn = {};
  bool operator==(const FqCodel&) const = default;
};

/// tc-fq(8), which sends a packet at its departure time. Absent is the kernel's default, or in
/// replace() what it was.
struct Fq {
  std::optional<std::uint32_t> limit = {}, flow_limit = {};  ///< packets
  /// Packets that would leave later are dropped, or leave at the horizon. Linux 5.8.
  std::optional<std::chrono::microseconds> horizon = {};
  std::optional<bool> horizon_drop = {};
  /// Whether it paces sockets that ask for a rate; else TCP does so itself.
  std::optional<bool> pacing = {};
  bool operator==(const Fq&) const = default;
};

/// The qdisc for filters on received packets.
struct Ingress {
  bool operator==(const Ingress&) const = default;
};
/// The same, and of what it sends. A link has one of the two: the other one is EEXIST in add(),
/// EINVAL in replace().
struct Clsact {
  bool operator==(const Clsact&) const = default;
};

using Kind = std::variant<Tbf, Htb, Fifo, FqCodel, Fq, Ingress, Clsact>;
/// The kernel's name of it: "tbf".
std::string_view name(const Kind& kind);

/// A qdisc to make. For Ingress and Clsact parent is kHook, handle kHookHandle.
struct Qdisc {
  Handle parent = kRoot, handle = kNone;
  Kind kind;
};

/// Create only: EEXIST where a qdisc is that somebody made.
RouteRequest add(const Link& link, const Qdisc& qdisc);
/// Creates it in place of what is there; what has its handle and kind is changed without losing a
/// packet. EINVAL where what is there has its handle and is of another kind.
RouteRequest replace(const Link& link, const Qdisc& qdisc);
/// Only one with this parent, handle and kind; tolerates that there is none. Its filters and
/// classes go with it.
RouteRequest remove(const Link& link, const Qdisc& qdisc);

/// A qdisc as the kernel showed it.
struct QdiscState {
  int link = 0;
  Handle parent = kNone, handle = kNone;
  std::string kind = {};             ///< the kernel's name
  std::optional<Kind> options = {};  ///< nothing for kinds that are not made here

  /// The options where it is a K.
  template <class K>
  const K* as() const {
    return options ? std::get_if<K>(&*options) : nullptr;
  }
};
/// Reads an RTM_NEWQDISC.
QdiscState decode_qdisc(const Reply& reply);

}  // namespace netlink::tc
