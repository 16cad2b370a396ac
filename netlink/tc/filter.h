#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "netlink/route/link.h"
#include "netlink/route/request.h"
#include "netlink/tc/handle.h"
#include "netlink/types/ip.h"

namespace netlink::tc {

/// A handle of u32 filters that is not another's: the kernel itself numbers from 800::800. There is
/// such a table only where no u32 filter of another priority came first.
inline constexpr Handle kOwnU32{0x800000CB};

/// A u32 filter that matches every packet, and sends it out of another link instead.
struct Redirect {
  Handle parent = kIngress;
  std::uint16_t priority = 1;
  int to_link = 0;
  /// Makes it replaceable; EINVAL where there is no such table. kNone lets the kernel choose, and
  /// add() then adds another one each time; FilterState has the handle to replace that one.
  Handle handle = kOwnU32;
};
/// EEXIST where its handle is taken.
RouteRequest add(const Link& link, const Redirect& redirect);
/// Creates it, or changes only where it leads.
RouteRequest replace(const Link& link, const Redirect& redirect);

/// The address of a packet that is compared.
enum class End { kDestination, kSource };

/// A u32 filter that sends what goes to a network, or comes from it, through a class. All of one
/// priority have one family. Adding it again adds another one; they are removed by their priority.
struct ToClass {
  Handle parent = kNone;  ///< the classful qdisc
  Handle flow = kNone;    ///< the class
  std::uint16_t priority = 0;
  Cidr network;
  End end = End::kDestination;
};
RouteRequest add(const Link& link, const ToClass& filter);

/// A program of type BPF_PROG_TYPE_SCHED_CLS that decides itself (cls_bpf, direct-action).
struct Program {
  Handle parent = kEgress;
  std::uint16_t priority = 1;
  Handle handle = Handle{1};
  int fd = -1;
  std::string name;
};
/// EEXIST where its handle is taken.
RouteRequest add(const Link& link, const Program& program);
/// Creates it, or puts the program in place of the other one without letting a packet by.
RouteRequest replace(const Link& link, const Program& program);
/// Only the one with this handle; tolerates that there is none.
RouteRequest remove(const Link& link, const Program& program);

/// Filters of one parent: of a priority, or all.
struct FilterGroup {
  Handle parent = kIngress;
  std::uint16_t priority = 0;  ///< 0 is all of the parent
};
/// Tolerates that there are none.
RouteRequest remove(const Link& link, const FilterGroup& group);

/// 32 bits of a packet that a u32 filter looks at: those of mask, offset bytes into the network
/// header. In host order, as the packet is read.
struct Key {
  std::uint32_t value = 0, mask = 0;
  int offset = 0;
  bool operator==(const Key&) const = default;
};
/// The keys that match what goes to the network, or comes from it.
std::vector<Key> keys_of(const Cidr& network, End end);

/// An action that hands packets to another link (act_mirred).
struct Mirred {
  int to_link = 0;
  bool redirect = false;  ///< instead of going on, else a copy; out of the link
  int verdict = 0;        ///< TC_ACT_*
  bool operator==(const Mirred&) const = default;
};

/// A filter as the kernel showed it.
struct FilterState {
  int link = 0;
  Handle parent = kNone, handle = kNone;
  std::uint16_t priority = 0;
  std::uint16_t protocol = 0;  ///< ETH_P_*, host order
  std::string kind = {};       ///< "u32", "bpf", ...
  Handle flow = kNone;         ///< the class
  std::vector<Key> keys = {};  ///< u32
  std::vector<Mirred> mirreds = {};
  std::string program = {};  ///< cls_bpf: the name that its owner gave it
  std::uint32_t program_id = 0;
  bool direct_action = false;

  /// Whether the first thing that happens to every packet is that it goes out of the link.
  bool redirects_all_to(int to_link) const;
};
/// Reads an RTM_NEWTFILTER. Nothing for what only holds filters: a priority, or a table of u32.
std::optional<FilterState> decode_filter(const Reply& reply);

}  // namespace netlink::tc
