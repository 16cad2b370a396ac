#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libcni/config/key.h"
#include "libcni/plugin/request.h"
#include "netlink/route/link_data.h"

namespace ipvlan {

extern const cni::Manual kManual;

/// "l2", "l3", "l3s".
std::string_view name_of(netlink::Ipvlan::Mode mode);

/// The network config of the ipvlan plugin; the README's table says what each key means.
struct Conf {
  std::string master;              ///< empty: of prevResult, else the link of the default route
  bool link_in_container = false;  ///< the master is in the pod
  netlink::Ipvlan data;            ///< mode, isolation
  unsigned mtu = 0;                ///< bytes; 0 is the master's
  std::string ipam_type;           ///< empty: the addresses of prevResult
  std::optional<cni::Dns> dns;     ///< of the result; the IPAM plugin's is passed over
  bool dns_from_ipam = false;
  bool ignore_default_route = false;

  bool operator==(const Conf&) const = default;

  /// \throws cni::Error(kInvalidConfig) naming the key.
  static Conf parse(const cni::Request& request);
};

/// ADD: the master that the config names, or the only interface with a name in prevResult; "" where
/// there is none of both. \throws cni::Error(kInvalidConfig) where prevResult has none or several.
std::string master_of(const Conf& conf, const std::optional<cni::Result>& prev);

/// The result as the kernel takes it. In modes l3 and l3s the node routes what the pod sends,
/// whatever gateway is given: a gateway that no address has in its subnet, which the kernel would
/// refuse, is left out.
cni::Result routable(cni::Result result, netlink::Ipvlan::Mode mode);

}  // namespace ipvlan
