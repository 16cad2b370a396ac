#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libcni/plugin/collect.h"
#include "netlink/nf/socket.h"
#include "plugins/portmap/backend.h"
#include "plugins/portmap/conf.h"

/// Adds and removes mappings in either backend, under the lock of the state files. The state file
/// exists as long as the rules: it is written first and removed last.
namespace portmap {

/// Maps all claims of the attachment in its backend and removes its previous ones.
/// \throws as plan() and the backends.
void map_ports(netlink::nf::NfSocket* socket, const Attachment& attachment, OnConflict policy);

/// CHECK, also of rules without a state file: the reference plugin added them, or the file was
/// lost. \throws cni::Error, which names the first difference from what ADD adds.
void check_ports(netlink::nf::NfSocket* socket, const Conf& conf, const Attachment& attachment);
/// \throws cni::Error where a backend has ports of the owner that no state file names. Those of the
/// reference plugin need none.
void require_state_file(netlink::nf::NfSocket* socket, const Attachment& attachment);
/// The backend that the owner has, unless it precedes Services; nullopt: to be detected.
std::optional<BackendName> backend_to_repair(netlink::nf::NfSocket* socket, const Conf& conf,
                                             const Owner& owner);

/// Removes the owner's mappings, and maps the ports to the container's other attachments that
/// request them. Without a state file it removes what the config's mappings name and what the
/// reference plugin added. Without either it sends no request to the kernel. \throws cni::Error,
/// which lists what could not be removed.
void unmap_ports(const Owner& owner, const std::vector<Mapping>& mappings);

/// The same for a caller that has the lock; returns the claims that the owner had.
std::vector<Claim> unmap_locked(const Context& context, const Owner& owner,
                                const std::vector<Mapping>& mappings);

/// Moves the mappings of an attachment from nftables to iptables, except those that another
/// container has by now. The caller has the lock.
void move_to_iptables(const Context& context, Attachment attachment);

/// GC: removes all mappings of a network except those of valid attachments, also if the state file
/// is unreadable. \throws cni::Error, which lists what could not be removed; kTryAgainLater without
/// any change if another call has the lock.
void unmap_stale(const std::string& network, cni::Collect& collect);

/// Undo step of map_ports().
struct UnmapPorts {
  Owner owner;
  std::vector<Mapping> mappings;
  void operator()() const { unmap_ports(owner, mappings); }
  std::string describe() const { return "remove port mappings"; }
};

}  // namespace portmap
