#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libcni/config/key.h"
#include "libcni/plugin/request.h"
#include "netlink/route/link_data.h"

namespace vlan {

extern const cni::Manual kManual;

/// The network config of the vlan plugin; the README's table says what each key means.
struct Conf {
  enum class Protocol { k8021q, k8021ad };  ///< in the order of the key's enumeration

  std::string master;
  bool link_in_container = false;
  std::uint16_t vlan_id = 0;
  Protocol protocol = Protocol::k8021q;
  netlink::Vlan::Priorities egress, ingress;
  std::int64_t mtu = 0;         ///< bytes, as written; 0 is the master's
  std::string ipam_type;        ///< empty: layer 2 only
  std::optional<cni::Dns> dns;  ///< of the result
  bool dns_from_ipam = false;
  bool ignore_default_route = false;

  bool operator==(const Conf&) const = default;

  /// The link's own part of the request.
  netlink::Vlan data() const;

  /// mtu is compared with the master's by plugins::require_mtu(). \throws
  /// cni::Error(kInvalidConfig) naming the key.
  static Conf parse(const cni::Request& request);
};

}  // namespace vlan
