#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libcni/config/key.h"
#include "libcni/plugin/request.h"
#include "netlink/route/link_data.h"
#include "netlink/types/mac.h"

namespace macvlan {

extern const cni::Manual kManual;

/// "bridge", "private", ...
std::string_view name_of(netlink::Macvlan::Mode mode);

/// The network config of the macvlan plugin; the README's table says what each key means.
struct Conf {
  std::string master;              ///< empty: the link of the default route
  bool link_in_container = false;  ///< the master is in the pod
  netlink::Macvlan data;           ///< mode, queue, senders
  unsigned mtu = 0;                ///< bytes; 0 is the master's
  std::optional<netlink::Mac> mac;
  bool enable_dad = false;
  std::string ipam_type;        ///< empty: layer 2 only
  std::optional<cni::Dns> dns;  ///< of the result; the IPAM plugin's is passed over
  bool dns_from_ipam = false;
  bool ignore_default_route = false;

  bool operator==(const Conf&) const = default;

  /// \throws cni::Error(kInvalidConfig, kInvalidEnvironment) naming the key.
  static Conf parse(const cni::Request& request);
};

}  // namespace macvlan
