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

/// The program's constants; always within the range of its arithmetic.
EdtConstants constants_of(const Limit& limit);

/// The fq qdisc with room for all that the program accepts, because the program counts a packet as
/// sent that the qdisc would drop.
netlink::tc::Fq queue_of(const Limit& limit);

/// The kernel's default gso_max_size in bytes (GSO_LEGACY_MAX_SIZE of
/// linux/netdevice.h).
inline constexpr unsigned kUsualPacketSize = 65536;

/// The gso_max_size of a limited link in bytes, before its former one: what the rate sends in a
/// millisecond, at least two frames. Unlike tbf, fq does not split packets: 64 KiB of one
/// connection would delay others by 50 ms at 10 Mbit/s.
unsigned packet_size_of(const Limit& limit, unsigned mtu, unsigned before);

/// State of the program that ADD replaces.
struct PreviousProgram {
  const netlink::Fd* departures = nullptr;  ///< its map, reused by the new program
  unsigned packet_size_before = 0;
};
netlink::bpf::Object load(const Limit& limit, const PreviousProgram& previous = {});

}  // namespace bandwidth::edt
