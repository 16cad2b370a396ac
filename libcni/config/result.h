#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libcni/common/version.h"
#include "netlink/types/ip.h"
#include "netlink/types/mac.h"

namespace cni {

using netlink::Cidr;
using netlink::Ip;
using netlink::Mac;

/// One entry of "interfaces". sandbox is empty for an interface on the node; mac is text, since
/// what another plugin put there (20-byte InfiniBand addresses) is passed on unchanged.
struct Interface {
  std::string name;
  std::string mac = {};
  unsigned mtu = 0;  ///< bytes; 0 is "not stated"
  std::string sandbox = {}, socket_path = {}, pci_id = {};
  bool operator==(const Interface&) const = default;
};

/// One entry of "ips". interface is an index into Result::interfaces.
struct Address {
  Cidr cidr;
  std::optional<Ip> gateway = {};
  std::optional<std::size_t> interface = {};
  bool operator==(const Address&) const = default;
};

/// One entry of "routes". What is absent is left to the kernel.
struct Route {
  Cidr dst;
  std::optional<Ip> gateway = {};
  unsigned mtu = 0, advmss = 0;  ///< bytes; 0 is "not stated"
  unsigned priority = 0;         ///< the metric; 0 is "not stated"
  std::optional<unsigned> table = {};
  std::optional<unsigned> scope = {};
  bool operator==(const Route&) const = default;
};

/// Texts as Go prints its types, for sentences of the reference plugins.
std::string go_mask(const Cidr& cidr);
std::string go_text(const Route& route);

struct Dns {
  std::vector<std::string> nameservers = {};
  std::string domain = {};
  std::vector<std::string> search = {}, options = {};
  bool operator==(const Dns&) const = default;
  bool empty() const { return *this == Dns{}; }
};

/// The result of ADD, in the newest spec's terms only. Plain data, compared with ==.
struct Result {
  std::vector<Interface> interfaces = {};
  std::vector<Address> ips = {};
  std::vector<Route> routes = {};
  Dns dns = {};
  bool operator==(const Result&) const = default;
};

/// The wire form for a version: every older format lives here and in result_from(), nowhere else.
/// Keys stand in the order in which the reference prints them.
/// \throws Error(kIncompatibleVersion) where the old format cannot carry the result (no addresses).
nlohmann::ordered_json to_json(const Result& result, Version as);

/// Reads a result. What carries no cniVersion is taken to be of version assumed.
/// \throws Error(kDecodingFailure) with the JSON path; kIncompatibleVersion for a format of another
/// family than assumed's (0.1/0.2, 0.3/0.4, 1.x), as in the reference.
Result result_from(const nlohmann::json& doc, Version assumed);

/// Reads a result of whatever version it says it is of; "" is 0.1.0. null is an empty result.
/// \throws Error as above.
Result result_from(const nlohmann::json& doc);

}  // namespace cni
