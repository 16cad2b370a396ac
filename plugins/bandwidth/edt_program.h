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

/// What the kernel gives every link as its gso_max_size: bytes (GSO_LEGACY_MAX_SIZE of
/// linux/netdevice.h).
inline constexpr unsigned kUsualPacketSize = 65536;

/// How large the packets of a link may be that the stack hands over, where they were as large as
/// before: what the rate sends in a millisecond, at least two frames. Unlike tbf, fq does not cut
/// them: a connection's 64 KiB would keep others waiting for 50 ms at 10 Mbit/s.
unsigned packet_size_of(const Limit& limit, unsigned mtu, unsigned before);

/// State of the program that ADD replaces.
struct PreviousProgram {
  const netlink::Fd* departures = nullptr;  ///< its map, reused by the new program
  unsigned packet_size_before = 0;
};
netlink::bpf::Object load(const Limit& limit, const PreviousProgram& previous = {});

}  // namespace bandwidth::edt
