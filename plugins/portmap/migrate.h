#pragma once

#include <optional>
#include <string>

#include "netlink/nf/socket.h"
#include "plugins/portmap/attachment.h"
#include "plugins/portmap/conf.h"

/// MIGRATE. An attachment of this plugin has a state file; one of the reference plugin has none,
/// and that plugin's rules. DEL of an attachment without a state file removes either form: the file
/// is therefore written at the end, and removed at the beginning.
namespace portmap {

/// What has to change so that the attachment has the form alone; empty: nothing.
std::optional<std::string> form_difference(netlink::nf::NfSocket* socket, const Conf& conf,
                                           const Attachment& attachment, bool to_reference);

/// Maps the ports in this form, and then removes the other one. What maps a new connection is the
/// other one until then. \throws as map_ports().
void put_form(netlink::nf::NfSocket* socket, const Conf& conf, const Attachment& attachment,
              bool to_reference);

}  // namespace portmap
