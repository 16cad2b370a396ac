#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcni/config/conf.h"
#include "netlink/types/ip.h"

namespace tool::doctor {

/// Addresses from start to end, both included.
struct Span {
  netlink::Cidr subnet;
  netlink::Ip start, end;
  std::optional<netlink::Ip> gateway;  ///< never given out
  bool contains(const netlink::Ip& ip) const { return start <= ip && ip <= end; }
  /// The largest 64-bit number stands for that many or more.
  std::uint64_t size() const;
};

/// An address that host-local has given out, as its file says.
struct Reservation {
  netlink::Ip ip;
  std::string container_id, ifname;  ///< ifname is empty in files of long ago
};

/// What host-local gives addresses of a network out of.
struct Pool {
  std::string network, file;
  std::string dir;                      ///< of the reservations
  std::vector<std::vector<Span>> sets;  ///< an attachment gets one address of each
  std::vector<Reservation> reservations;
};

/// The sets that a config of host-local names. \throws cni::Error where it is wrong.
std::vector<std::vector<Span>> sets_in(const cni::Reader& ipam);

/// Reads the directory of the reservations; none where it is not there.
/// \throws netlink::Error where it cannot be read.
std::vector<Reservation> reservations_in(const std::string& dir);

}  // namespace tool::doctor
