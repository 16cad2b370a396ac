#pragma once

#include <optional>
#include <string>

#include "libcni/plugin/request.h"
#include "netlink/netns.h"
#include "netlink/route/socket.h"

namespace plugins {

/// The namespaces of a call: the node's network namespace, which the process is in, and the pod's.
class Namespaces {
 public:
  /// \throws cni::Error: kInvalidNetNs; where this process lacks the rights that the verb needs.
  explicit Namespaces(const cni::Request& of) : Namespaces(of, cni::open_netns(of)) {}
  /// The same for a namespace that is open already.
  Namespaces(const cni::Request& of, netlink::NetNs pod_namespace);

  const cni::Request& request;
  netlink::NetNs pod_ns;
  netlink::RouteSocket pod;
  /// Opened by the first call: not every verb needs one.
  netlink::RouteSocket& host();

 private:
  std::optional<netlink::RouteSocket> host_;
};

/// A pod's interface.
struct PodInterface {
  Namespaces& sides;
  netlink::Link link;
};

/// prevResult, which a plugin needs that is chained after the one that creates the interface.
/// \throws cni::Error(kInvalidConfig) with that sentence if it is missing.
cni::Result require_prev_result(const cni::Request& request, const std::string& sentence);

/// And the interface CNI_IFNAME. \throws cni::Error with that sentence where the pod has none.
netlink::Link require_interface(Namespaces& sides, const std::string& sentence);

}  // namespace plugins
