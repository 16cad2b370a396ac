#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/nf/socket.h"
#include "plugins/portmap/conf.h"
#include "plugins/portmap/record.h"

/// Setting up and taking down, whichever backend has it, under the lock of the records: the record
/// first, then the rules; the rules first, then the record.
namespace portmap {

/// The configured backend, or what the node has. \throws cni::Error(kPluginUnavailable) naming what
/// is missing.
Backend choose_backend(std::optional<Backend> configured, netlink::nf::NfSocket* socket);

/// Maps all claims of the attachment in place of what it had before. Fills in the backend.
/// Returns the claims that were taken from others. \throws as judge() and the backends.
std::vector<Claim> set_up(netlink::nf::NfSocket* socket, Attachment& attachment,
                          std::optional<Backend> configured, OnConflict policy);

/// Takes down what the owner has, and passes its ports on to the container's other attachments that
/// want them. Without a record: what the config's mappings name, and what the reference made. With
/// neither it asks nothing of the kernel. \throws cni::Error listing what could not be removed.
void take_down(const Owner& owner, const std::vector<Mapping>& mappings);

/// The attachment's claims together with those of the container's others on the same network, the
/// oldest first, since all of them share one chain of the iptables backend.
Attachment with_siblings(const Attachment& attachment, const Container& container);

/// Undo step of set_up().
struct TakeDown {
  Owner owner;
  std::vector<Mapping> mappings;
  void operator()() const { take_down(owner, mappings); }
  std::string describe() const { return "remove port mappings"; }
};

}  // namespace portmap
