#include "plugins/portmap/mapping.h"

#include <set>

#include "libcni/common/error.h"

namespace portmap {

namespace {

using cni::cat;

// The key that the mapping requests in a family, if any.
std::optional<Key> key_of(const Mapping& mapping, Family family) {
  const Key any{family, mapping.protocol, mapping.host_port};
  if (!mapping.host_ip) return any;
  if (mapping.host_ip->family() != family) return std::nullopt;
  if (mapping.host_ip->is_unspecified()) return any;
  return Key{family, mapping.protocol, mapping.host_port, mapping.host_ip};
}

// Whether the entry of "ips" can be the pod's. Without a valid index it can.
bool may_be_pods(const cni::Result& result, const cni::Address& address, std::string_view ifname) {
  if (!address.interface || *address.interface >= result.interfaces.size()) return true;
  const cni::Interface& interface = result.interfaces[*address.interface];
  return interface.name == ifname && !interface.sandbox.empty();
}

}  // namespace

std::string_view name_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::kTcp:
      return "tcp";
    case Protocol::kUdp:
      return "udp";
    case Protocol::kSctp:
      return "sctp";
  }
  return "unknown";
}

std::optional<Protocol> protocol_from(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  for (const Protocol protocol : {Protocol::kTcp, Protocol::kUdp, Protocol::kSctp}) {
    if (lower == name_of(protocol)) return protocol;
  }
  return std::nullopt;
}

std::string Mapping::str() const { return cat(name_of(protocol), " port ", host_port); }

std::string Key::str() const {
  const std::string port_text = cat(name_of(protocol), " port ", port, " of ");
  if (address) return port_text + address->str();
  return cat(port_text, "every IPv", family == Family::kIpv4 ? "4" : "6", " address");
}

std::string Claim::target_str() const {
  return target.is_v4() ? cat(target.str(), ":", target_port)
                        : cat("[", target.str(), "]:", target_port);
}

PodAddresses pod_addresses(const cni::Result& result, std::string_view ifname) {
  PodAddresses out;
  for (const cni::Address& address : result.ips) {
    auto& field = address.cidr.ip.is_v4() ? out.v4 : out.v6;
    if (!field && may_be_pods(result, address, ifname)) field = address.cidr;
  }
  return out;
}

std::vector<Claim> claims_of(const std::vector<Mapping>& mappings, const PodAddresses& pod) {
  std::vector<Claim> out;
  std::set<Key> taken;
  for (const Family family : netlink::kFamilies) {
    const auto& address = pod.of(family);
    if (!address) continue;
    for (const Mapping& mapping : mappings) {
      const auto key = key_of(mapping, family);
      if (!key) continue;
      if (taken.insert(*key).second) out.push_back({*key, address->ip, mapping.container_port});
    }
  }
  return out;
}

}  // namespace portmap
