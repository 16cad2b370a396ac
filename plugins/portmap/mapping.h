#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/config/result.h"
#include "netlink/types/ip.h"

/// What is mapped where: the plugin's own terms, free of any backend.
namespace portmap {

using netlink::Cidr;
using netlink::Family;
using netlink::Ip;

/// IP protocol numbers.
enum class Protocol : std::uint8_t { kTcp = 6, kUdp = 17, kSctp = 132 };
/// "tcp", "udp", "sctp".
std::string_view name_of(Protocol protocol);
/// Without regard to case; nothing for other text.
std::optional<Protocol> protocol_from(std::string_view text);

/// One entry of runtimeConfig.portMappings.
struct Mapping {
  std::uint16_t host_port = 0;
  std::uint16_t container_port = 0;
  Protocol protocol = Protocol::kTcp;
  /// Absent: every local address of both families. "0.0.0.0" and "::" stand for every local
  /// address of their family.
  std::optional<Ip> host_ip = {};
  bool operator==(const Mapping&) const = default;
};

/// What only one pod can have: a port on one local address, or on all of a family.
struct Key {
  Family family = Family::kIpv4;
  Protocol protocol = Protocol::kTcp;
  std::uint16_t port = 0;
  std::optional<Ip> address = {};  ///< absent: every local address of the family

  auto operator<=>(const Key&) const = default;
  /// "tcp port 8080 of every IPv4 address", "udp port 53 of 192.0.2.1": for messages.
  std::string str() const;
};

/// A key and where its traffic goes.
struct Claim {
  Key key;
  Ip target;
  std::uint16_t target_port = 0;
  bool operator==(const Claim&) const = default;
  std::string target_str() const;  ///< "10.1.2.3:80", "[fd00::3]:80"
};

/// The pod's addresses, one per family at most, each with its subnet's prefix.
struct PodAddresses {
  std::optional<Cidr> v4, v6;
  const std::optional<Cidr>& of(Family family) const { return family == Family::kIpv4 ? v4 : v6; }
  bool operator==(const PodAddresses&) const = default;
};

/// The first address of each family that may be the pod's: those whose interface is known to be
/// another one, or on the node, are passed over.
PodAddresses pod_addresses(const cni::Result& result, std::string_view ifname);

/// In the order of the mappings, IPv4 first; what is there twice only once.
std::vector<Claim> claims_of(const std::vector<Mapping>& mappings, const PodAddresses& pod);

}  // namespace portmap
