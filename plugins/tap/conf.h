#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libcni/config/key.h"
#include "libcni/plugin/request.h"
#include "netlink/types/mac.h"

namespace tap {

extern const cni::Manual kManual;

/// The network config of the tap plugin; the README's table says what each key means.
struct Conf {
  unsigned mtu = 0;                 ///< bytes; 0 is the kernel's default
  std::optional<netlink::Mac> mac;  ///< absent: random
  bool multi_queue = false;
  std::optional<std::uint32_t> owner, group;  ///< uid, gid; absent: any
  std::string selinux_context;                ///< empty: the plugin's
  std::string bridge;                         ///< of the pod; empty: none
  std::string ipam_type;                      ///< empty: layer 2 only
  std::optional<cni::Dns> dns;                ///< replaces the IPAM plugin's
  bool dns_from_ipam = false;
  bool ignore_default_route = false;

  bool operator==(const Conf&) const = default;

  /// \throws cni::Error(kInvalidConfig, kInvalidEnvironment) naming the key.
  static Conf parse(const cni::Request& request);
};

}  // namespace tap
