#pragma once

#include <cstddef>
#include <span>

#include "netlink/bpf/object.h"
#include "netlink/tc/qdisc.h"
#include "netlink/types/fd.h"
#include "plugins/bandwidth/edt.h"
#include "plugins/bandwidth/edt_constants.h"

/// The parts of edt.cc that need no link.
namespace bandwidth::edt {

inline constexpr const char* kFunction = "shape";
inline constexpr const char* kDepartures = "departures";

/// The bytes of edt.bpf.c's object file; none in a build without eBPF.
std::span<const std::byte> object() noexcept;

/// What the program is told; never out of its arithmetic's range.
EdtConstants constants_of(const Limit& limit);

/// The queue that holds as much as the program accepts: what it drops itself the program would have
/// taken for sent.
netlink::tc::Fq queue_of(const Limit& limit);

/// Loads the program. It goes on with the departure times in a map of an earlier one, if given.
netlink::bpf::Object load(const Limit& limit, const netlink::Fd* departures = nullptr);

}  // namespace bandwidth::edt
