#pragma once

#include <string>
#include <vector>

#include "netlink/route/socket.h"
#include "plugins/host-device/conf.h"

/// The device that a config selects: a link of the node, or in DPDK mode a PCI device without one.
namespace host_device {

/// The device that the config selects below /sys/bus.
struct Selection {
  std::string pci, auxiliary;  ///< names in /sys/bus/pci/devices and /sys/bus/auxiliary/devices
  bool dpdk = false;  ///< the device belongs to a user-space driver: there is no link to move
};

/// \throws cni::Error for a deviceID that does not exist, or a PCI device without driver.
Selection select(const Conf& conf);

/// The selected link of the node; the order of the keys is that of the reference plugin.
/// \throws cni::Error where it does not exist.
netlink::Link find_device(netlink::RouteSocket& host, const Conf& conf, const Selection& selection);

/// Refuses "lo", and unless `device` names it what the node needs: the link of a default route, a
/// port of a bridge or bond, a link below others. \throws cni::Error that says which.
void require_movable(netlink::RouteSocket& host, const Conf& conf, const netlink::Link& link);

/// The PCI address of a link of the node; empty where it has none.
std::string pci_address_of(const std::string& link);
/// The PCI address of the physical function of a virtual function; empty for any other device.
std::string physical_function_of(const std::string& pci);

/// Whether the link of a pod is hardware that the config selects: by its permanent identity, by the
/// name in its alias, where the reference plugin keeps it, or by one of its alternative names,
/// which the kernel keeps.
bool selects_hardware(const Conf& conf, const netlink::Link& link,
                      const std::vector<std::string>& altnames);

}  // namespace host_device
