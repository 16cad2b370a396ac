#pragma once

#include <string>
#include <vector>

#include "cnitool/preset.h"
#include "libcni/config/subnet_env.h"

namespace tool {

/// The options of a preset, read and checked.
struct PresetInput {
  std::vector<netlink::Cidr> pod_cidrs;  ///< one, or one of each family; IPv4 first
  std::vector<netlink::Cidr> except;
  unsigned mtu = 0;  ///< bytes; 0: none
};

/// The pod CIDRs of the source that was given. \throws cni::Error where there is none or several,
/// or what it says cannot be the pod CIDRs of a node; netlink::Error.
std::vector<netlink::Cidr> pod_cidrs_from(const PresetOptions& options);

/// Networks separated by commas. \throws cni::Error for another text, for host bits, and for two
/// that overlap; what is "--pod-cidr".
std::vector<netlink::Cidr> networks_from(const std::string& text, const std::string& what);

/// The file, complete. \throws cni::Error naming what it lacks; netlink::Error.
cni::SubnetEnv complete_subnet_env(const std::string& path);

/// A link's part in the choice of an MTU.
struct UplinkMtu {
  std::string name;
  unsigned mtu = 0;
};
/// The uplink with the smallest MTU: no loopback, bridge, veth, tunnel to one peer, or link that is
/// down. Its name is empty where there is none, or its MTU is below 576: then 1460, as in kubenet.
UplinkMtu smallest_uplink();

/// The MTU in bytes, 0 where none was asked for; fallback is for an empty option.
/// \throws cni::Error for another text, and where it is too small for a family.
unsigned mtu_from(const PresetOptions& options, unsigned fallback, bool has_ipv6);

}  // namespace tool
