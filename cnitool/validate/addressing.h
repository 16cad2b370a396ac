#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cnitool/validate/network_text.h"
#include "netlink/types/ip.h"

namespace tool {

/// A subnet that pods get addresses of, and its gateway. Paths are those of the plugin's keys.
struct PodSubnet {
  std::string path;
  netlink::Cidr cidr;
  std::string gateway_path = {};
  std::optional<netlink::Ip> gateway = {};
};

/// The next hop of a route.
struct Hop {
  std::string path;
  netlink::Ip gateway;
  std::optional<netlink::Cidr> dst = {};
  bool has_priority = false;  ///< a metric of its own
};

/// A default route of the main table.
struct WayOut {
  std::string path;
  netlink::Family family;
  std::int64_t priority = 0;  ///< the metric
};

/// The addresses and routes in the "ipam" of a plugin, as far as they are readable.
struct Addressing {
  bool known = false;      ///< it is in the form of host-local's or static's
  bool is_static = false;  ///< static's
  std::vector<PodSubnet> subnets = {};
  std::size_t entries = 0;  ///< of static's list of addresses, read or not
  std::vector<Hop> hops = {};
  std::vector<WayOut> ways_out = {};
};
Addressing addressing_of(const PluginText& plugin);

}  // namespace tool
