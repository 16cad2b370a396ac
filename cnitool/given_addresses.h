#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "libcni/config/address_range.h"
#include "libcni/config/conf.h"
#include "libcni/config/facts.h"

/// The addresses that a config gives out, as far as it is readable: its plugin says what is wrong.
namespace tool {

/// A run of addresses.
struct Given {
  /// Of the key that it is of, "ipam.ranges[0][0].subnet". Empty: no config has it, as flanneld's.
  std::string path;
  cni::AddressRange range;
};

/// What the "ipam" of a plugin gives out.
struct GivenAddresses {
  std::string type = {};  ///< of the IPAM plugin
  /// Where it is kept which are given: networks of one store give none twice. Empty: nowhere.
  std::string store = {};
  std::vector<Given> all = {};
};
/// \param facts of the IPAM plugin. Empty for one whose addresses a server or its own keys decide;
/// whereabouts is known by its type.
GivenAddresses given_by(const nlohmann::json& conf, const std::string& network, cni::Facts facts);

/// The runs of a place with the keys `subnet`, `rangeStart`, `rangeEnd`, `gateway`, without those
/// of `exclude`, which the type may have. \throws cni::Error where they are wrong.
std::vector<cni::AddressRange> ranges_at(const cni::Reader& place, const std::string& type,
                                         const std::string& pod_cidr_file);

/// What is left of a run without these networks.
std::vector<cni::AddressRange> runs_without(const cni::AddressRange& whole,
                                            const std::vector<netlink::Cidr>& exclude);

}  // namespace tool
