#pragma once

#include <string>
#include <utility>

#include "netlink/route/socket.h"
#include "plugins/host-device/state.h"

/// The move of a device from its pod to the node, which nothing that the pod does can prevent.
namespace host_device {

/// \throws cni::Error where another link of the node than the device has the name.
void require_free_name(netlink::RouteSocket& host, const std::string& name, int device = 0);

struct PodNamespace {
  explicit PodNamespace(netlink::NetNs where) : ns(std::move(where)), socket(ns) {}
  netlink::NetNs ns;
  netlink::RouteSocket socket;
};

/// The device as it is on the node then. If it cannot be moved there, the pod keeps it.
/// \throws cni::Error where another link of the node has its name; netlink::Error.
netlink::Link move_home(netlink::RouteSocket& host, PodNamespace& pod, const netlink::Link& link,
                        const Device& device);

}  // namespace host_device
