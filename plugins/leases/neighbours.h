#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libcni/common/dir.h"
#include "libcni/plugin/request.h"
#include "netlink/route/socket.h"
#include "plugins/leases/store.h"

namespace leases {

/// What pods of a network share on the node.
struct Segment {
  enum class Kind {
    kBridge,
    kRoutes,  ///< the node's, with ptp
    kMaster,  ///< the link that the pod's interface stands on, if it does, as with macvlan, ipvlan
  };
  Kind kind = Kind::kMaster;
  std::string bridge = {};
  std::string netns = {}, ifname = {};  ///< of the pod that asks

  /// Of the plugin that asks for addresses.
  static Segment of(const cni::Request& request);
};

/// Living pods of other networks on the same segment, as after the network's name was changed. They
/// have their leases beside the network's, which name the owner. The owner's host veth is named and
/// tagged by it; another interface is found by way of libcni's cache, which has the namespace.
/// A look costs a system call for each other network.
class Neighbours {
 public:
  /// Borrows all.
  Neighbours(const Segment& segment, const std::string& data_dir, const Store& store);

  /// The network whose pod has the address; empty: none.
  std::string network_with(const Ip& ip);

 private:
  struct Tenant;

  bool lives(const std::string& network, const Ip& ip);
  bool lives_in_its_namespace(const Tenant& tenant);
  bool is_on_segment(const netlink::Link& host_veth);
  bool is_on_segment(const netlink::NetNs& ns, netlink::RouteSocket& pod,
                     const netlink::Link& inside);
  /// Of the pod that asks: index of the link of the node; 0: none.
  int own_master();
  netlink::RouteSocket& host();

  const Segment& segment_;
  const Store& store_;
  std::optional<cni::Dir> base_;
  std::vector<std::string> others_;
  std::optional<netlink::RouteSocket> host_;
  std::optional<int> own_master_;
};

}  // namespace leases
