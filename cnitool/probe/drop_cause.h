#pragma once

#include <cstdint>
#include <optional>

#include "cnitool/probe/cause.h"

/// What the kernel's own reasons for drops say of a case.
namespace tool::probe {

enum class Evidence : std::uint8_t {
  kCertain,  ///< the reason says it all
  kAny       ///< the state of the node may explain it better
};

/// The routes or rules of the routing policy that refuse the packet, where the kernel's function
/// says that they did.
std::optional<Cause> refused_by_policy(const Case& one);

/// Whether eBPF programs of a control group keep the packet from the socket that it has reached.
bool kept_by_programs(const Case& one);

/// The cause behind the first packet of the case that a kernel dropped; empty: none was.
/// \throws netlink::Error.
std::optional<Cause> cause_of_drops(const Case& one, Evidence least);

}  // namespace tool::probe
