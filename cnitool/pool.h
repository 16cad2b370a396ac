#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libcni/config/address_range.h"
#include "libcni/config/conf.h"
#include "libcni/config/facts.h"
#include "libcni/runtime/conflist.h"
#include "netlink/types/ip.h"

namespace tool {

/// An address that host-local has given out, as its file says.
struct Reservation {
  netlink::Ip ip;
  std::string container_id, ifname;  ///< ifname is empty in files of long ago
};

/// The ranges and reservations of a network with host-local or cluster-pool.
struct Pool {
  std::string network, file;
  std::string dir;                  ///< of the reservations
  std::vector<cni::RangeSet> sets;  ///< an attachment gets one address of each
  std::vector<Reservation> reservations;
  std::string type = {};  ///< of the IPAM plugin; empty: unknown
};

/// The sets that a config of host-local or cluster-pool names, without what `exclude` has. \throws
/// cni::Error where it is wrong.
std::vector<cni::RangeSet> sets_in(const cni::Reader& ipam);

/// Reads the directory of the reservations; none where it is not there.
/// \throws netlink::Error where it cannot be read.
std::vector<Reservation> reservations_in(const std::string& dir);

/// The pools of a network; none of a config that is wrong. \throws as reservations_in().
std::vector<Pool> pools_of(const cni::NetworkList& list);

/// The directories beside those of the pools, of networks without a config: their reservations
/// alone. \throws as reservations_in().
std::vector<Pool> other_pools(const std::vector<Pool>& pools, const cni::Networks& networks);

/// The addresses of a set that are in use.
std::uint64_t used_of(const Pool& pool, const cni::RangeSet& set);

/// The subnets of its ranges.
std::vector<std::string> subnets_in(const cni::RangeSet& set);

/// The config of the first plugin with that fact; null where there is none.
const nlohmann::json* plugin_with(cni::Fact fact, const cni::NetworkList& list);

/// The type of the IPAM plugin; empty where there is none.
std::string ipam_type_of(const cni::PluginConf& plugin);

}  // namespace tool
