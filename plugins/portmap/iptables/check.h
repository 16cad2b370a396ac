#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/nf/socket.h"
#include "plugins/portmap/attachment.h"

namespace portmap::iptables {

/// The first difference from what add() adds; nullopt without one. `unrecorded` is for an
/// attachment without a state file: its mappings. Rules of the reference plugin have neither
/// exceptions nor a guard, and each entry of a protocol names all ports of the mappings.
std::optional<std::string> missing(netlink::nf::NfSocket* socket, const Attachment& attachment,
                                   const std::vector<Mapping>* unrecorded = nullptr);
/// \throws cni::Error for a difference.
void check(netlink::nf::NfSocket* socket, const Attachment& attachment,
           const std::vector<Mapping>* unrecorded = nullptr);

}  // namespace portmap::iptables
