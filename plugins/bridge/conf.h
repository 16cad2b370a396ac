#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcni/config/key.h"
#include "libcni/plugin/request.h"
#include "netlink/route/bridge_vlan.h"
#include "netlink/types/mac.h"
#include "plugins/common/firewall/masquerade.h"
#include "plugins/names/links.h"

namespace bridge {

extern const cni::Manual kManual;

/// The network config of the bridge plugin; the README's table says what each key means.
struct Conf {
  std::string bridge = names::kDefaultBridge;
  bool is_gateway = false;
  bool is_default_gateway = false;  ///< implies is_gateway
  bool force_address = false;
  bool ip_masq = false;
  std::optional<plugins::MasqueradeBackend> ip_masq_backend;  ///< absent: detected
  std::vector<netlink::Cidr> ip_masq_except;                  ///< destinations
  unsigned mtu = 0;                                           ///< bytes; 0 is the kernel's default
  bool hairpin_mode = false;
  bool promisc_mode = false;
  std::uint16_t vlan = 0;  ///< access VLAN ID; 0 is none
  /// Tagged VLANs in ascending, disjoint ranges, the access VLAN not among them.
  std::vector<netlink::PortVlan> trunk;
  bool vlan_filtering = false;  ///< vlan or vlanTrunk is set
  bool preserve_default_vlan = false;
  bool mac_spoof_check = false;
  bool enable_dad = false;
  bool disable_container_interface = false;
  bool port_isolation = false;
  std::string ipam_type;        ///< empty: layer 2 only
  std::optional<cni::Dns> dns;  ///< replaces the IPAM plugin's
  bool ignore_default_route = false;
  std::optional<netlink::Mac> mac;  ///< of the container interface

  bool operator==(const Conf&) const = default;

  /// "BRIDGE.VLAN", the link with the gateway address of an access VLAN.
  std::string vlan_gateway() const;

  /// \throws cni::Error(kInvalidConfig, kInvalidEnvironment) naming the key.
  static Conf parse(const cni::Request& request);
};

}  // namespace bridge
