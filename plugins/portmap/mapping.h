#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/config/result.h"
#include "netlink/types/ip.h"

/// Port mappings, independent of the backend.
namespace portmap {

using netlink::Cidr;
using netlink::Family;
using netlink::Ip;

/// IP protocol numbers.
enum class Protocol : std::uint8_t { kTcp = 6, kUdp = 17, kSctp = 132 };
/// "tcp", "udp", "sctp".
std::string_view name_of(Protocol protocol);
/// Case-insensitive; nullopt for other text.
std::optional<Protocol> protocol_from(std::string_view text);

/// One entry of runtimeConfig.portMappings.
struct Mapping {
  std::uint16_t host_port = 0;
  std::uint16_t container_port = 0;
  Protocol protocol = Protocol::kTcp;
  /// Absent: every local address of both families. "0.0.0.0" and "::": every local address of
  /// one family.
  std::optional<Ip> host_ip = {};
  bool operator==(const Mapping&) const = default;
  std::string str() const;  ///< "tcp port 80"
};

/// A port of one local address, or of all of a family. One pod owns it.
struct Key {
  Family family = Family::kIpv4;
  Protocol protocol = Protocol::kTcp;
  std::uint16_t port = 0;
  std::optional<Ip> address = {};  ///< absent: every local address of the family

  auto operator<=>(const Key&) const = default;
  /// "tcp port 8080 of every IPv4 address", "udp port 53 of 192.0.2.1": for messages.
  std::string str() const;
};

/// A key and the target of its traffic.
struct Claim {
  Key key;
  Ip target;
  std::uint16_t target_port = 0;
  bool operator==(const Claim&) const = default;
  std::string target_str() const;  ///< "10.1.2.3:80", "[fd00::3]:80"
};

/// The pod's addresses, at most one per family, each with the prefix of its subnet.
struct PodAddresses {
  std::optional<Cidr> v4, v6;
  const std::optional<Cidr>& of(Family family) const { return family == Family::kIpv4 ? v4 : v6; }
  bool operator==(const PodAddresses&) const = default;
};

/// The first address of each family that can be the pod's: not one whose interface in the result
/// has another name or is on the node.
PodAddresses pod_addresses(const cni::Result& result, std::string_view ifname);

/// In the order of the mappings, IPv4 first, without duplicates.
std::vector<Claim> claims_of(const std::vector<Mapping>& mappings, const PodAddresses& pod);

}  // namespace portmap
