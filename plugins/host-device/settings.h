#pragma once

#include "netlink/route/socket.h"
#include "plugins/host-device/state.h"

/// The settings that a link of the node gets back once it has left its pod.
namespace host_device {

/// Numbers of the XDP and tcx programs of a link.
std::vector<std::uint32_t> programs_of(const netlink::Link& link,
                                       const netlink::LinkSettings& settings);

/// Makes a link of the node what the device was, and removes what a pod made of it, attached to it
/// or stacked on it. \throws cni::Error where another link has the device's name; netlink::Error.
void restore(netlink::RouteSocket& host, netlink::Link link, const Device& device);

}  // namespace host_device
