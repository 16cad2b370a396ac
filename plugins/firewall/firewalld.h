#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/dbus/system_bus.h"
#include "netlink/types/ip.h"

/// The backend `firewalld`: the pod's addresses as sources of a zone, in the runtime configuration
/// of firewalld, which a reload of firewalld forgets.
namespace firewall::firewalld {

/// A connection to a running firewalld; nothing where none owns its name on the system bus.
std::optional<netlink::dbus::SystemBus> find();

/// Makes the address a source of the zone; it may be one. With replace it is taken out of another
/// zone. \throws cni::Error with firewalld's message.
void add(netlink::dbus::SystemBus& bus, const std::string& zone, const netlink::Ip& ip,
         bool replace);

/// False: it was none. \throws cni::Error with firewalld's message.
bool remove(netlink::dbus::SystemBus& bus, const std::string& zone, const netlink::Ip& ip);

/// Whether the address is a source of the zone. \throws cni::Error with firewalld's message.
bool has(netlink::dbus::SystemBus& bus, const std::string& zone, const netlink::Ip& ip);

/// The feature that the node or this build lacks; empty: find() finds firewalld.
std::optional<std::string> unusable();

}  // namespace firewall::firewalld
