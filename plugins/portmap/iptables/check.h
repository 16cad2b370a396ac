#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/nf/socket.h"
#include "plugins/portmap/attachment.h"

namespace portmap::iptables {

/// The first difference from what add() adds; nullopt without one.
std::optional<std::string> missing(netlink::nf::NfSocket* socket, const Attachment& attachment);

/// The same for an attachment without a state file. Rules of the reference plugin have neither
/// exceptions nor a guard, and each entry of a protocol names all ports of mappings.
std::optional<std::string> missing_unrecorded(netlink::nf::NfSocket* socket,
                                              const Attachment& attachment,
                                              const std::vector<Mapping>& mappings);

/// \throws cni::Error for a difference, if there is one.
void refuse(const std::optional<std::string>& difference);

}  // namespace portmap::iptables
