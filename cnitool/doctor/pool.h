#pragma once

#include <string>
#include <vector>

#include "libcni/config/address_range.h"
#include "libcni/config/conf.h"
#include "netlink/types/ip.h"

namespace tool::doctor {

/// An address that host-local has given out, as its file says.
struct Reservation {
  netlink::Ip ip;
  std::string container_id, ifname;  ///< ifname is empty in files of long ago
};

/// What host-local gives addresses of a network out of.
struct Pool {
  std::string network, file;
  std::string dir;                  ///< of the reservations
  std::vector<cni::RangeSet> sets;  ///< an attachment gets one address of each
  std::vector<Reservation> reservations;
};

/// The sets that a config of host-local names. \throws cni::Error where it is wrong.
std::vector<cni::RangeSet> sets_in(const cni::Reader& ipam);

/// Reads the directory of the reservations; none where it is not there.
/// \throws netlink::Error where it cannot be read.
std::vector<Reservation> reservations_in(const std::string& dir);

}  // namespace tool::doctor
