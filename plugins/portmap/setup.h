#pragma once

#include <optional>
#include <string>
#include <vector>

#include "netlink/nf/socket.h"
#include "plugins/portmap/conf.h"
#include "plugins/portmap/state.h"

/// Adds and removes mappings in either backend, under the lock of the state files. The state file
/// exists as long as the rules: it is written first and removed last.
namespace portmap {

/// The configured or the detected backend: nftables, unless kube-proxy in IPVS mode takes packets
/// to Services from iptables alone. \throws cni::Error(kPluginUnavailable), which names what is
/// missing.
Backend choose_backend(std::optional<Backend> configured, netlink::nf::NfSocket* socket);

/// Whether kube-proxy in IPVS mode was started after ADD had chosen nftables: the ports precede
/// Services until they are mapped again.
bool precedes_services(const AttachmentState& attachment, std::optional<Backend> configured,
                       netlink::nf::NfSocket* socket);

/// Maps all claims of the attachment and removes its previous ones. Sets the backend. Returns the
/// claims of replaced owners. \throws as resolve_conflict() and the backends.
std::vector<Claim> set_up(netlink::nf::NfSocket* socket, AttachmentState& attachment,
                          std::optional<Backend> configured, OnConflict policy);

/// Removes the owner's mappings, and maps the ports to the container's other attachments that
/// request them. Without a state file it removes what the config's mappings name and what the
/// reference plugin added. Without either it sends no request to the kernel. \throws cni::Error,
/// which lists what could not be removed.
void remove_mappings(const Owner& owner, const std::vector<Mapping>& mappings);

/// The same while the caller has the lock of the state files, if there are any. Returns the claims
/// that the owner had. The caller has the capabilities.
std::vector<Claim> remove_locked(netlink::nf::NfSocket* socket,
                                 const std::optional<StateDir>& state, const Owner& owner,
                                 const std::vector<Mapping>& mappings);

/// Moves the mappings of an attachment from nftables to iptables, except those that another
/// container has by now.
void move_to_iptables(netlink::nf::NfSocket& socket, const StateDir& state,
                      AttachmentState attachment);

/// The attachment with the claims of all attachments of its container and network, the oldest
/// first: they share one chain of the iptables backend.
AttachmentState with_shared_claims(const AttachmentState& attachment,
                                   const ContainerState& container);

/// Undo step of set_up().
struct RemoveMappings {
  Owner owner;
  std::vector<Mapping> mappings;
  void operator()() const { remove_mappings(owner, mappings); }
  std::string describe() const { return "remove port mappings"; }
};

}  // namespace portmap
