#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libcni/common/dir.h"
#include "libcni/plugin/request.h"
#include "netlink/route/socket.h"
#include "plugins/host-local/cursor.h"

namespace host_local {

/// What pods of a network share on the node: a bridge, or with ptp the node's routes.
struct Segment {
  std::string bridge = {};  ///< empty: of ptp

  /// Of the plugin that asks for addresses; empty for others, whose pods no link of the node shows.
  static std::optional<Segment> of(const cni::Request& request);
};

/// Living pods of other networks on the same segment, as after the network's name was changed. They
/// have their leases beside the network's, and their host veths are named and tagged by the owner.
/// A look costs a system call for each other network.
class Neighbours {
 public:
  /// Without a segment there are none.
  Neighbours(const std::optional<Segment>& segment, const std::string& data_dir,
             const std::string& network);

  /// The network whose pod has the address; empty: none.
  std::string network_with(const Ip& ip);

 private:
  bool lives(const std::string& network, const Ip& ip);
  bool is_on_segment(const netlink::Link& link);

  std::optional<Segment> segment_;
  std::optional<cni::Dir> base_;
  std::vector<std::string> others_;
  std::optional<netlink::RouteSocket> host_;
};

}  // namespace host_local
