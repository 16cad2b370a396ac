#pragma once

#include <functional>
#include <optional>

#include "libcni/common/undo.h"
#include "libcni/plugin/collect.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"
#include "plugins/common/firewall/masquerade.h"
#include "plugins/common/link/namespaces.h"

namespace netlink::nf {
class NfSocket;
}

/// The veth pair of an attachment, as bridge and ptp create it. How it is found later: host_veth.h.
namespace plugins {

struct VethPair {
  netlink::Link outside;  ///< the host veth
  netlink::Link inside;   ///< the container interface, CNI_IFNAME
};

struct NewVethPair {
  int master = 0;  ///< index of the bridge that the host veth becomes a port of; 0 is none
  std::optional<netlink::Mac> mac = {};  ///< of the container interface; absent: random
  unsigned mtu = 0;                      ///< bytes, of both; 0 is the kernel's default
};

/// Creates the pair in one message, both interfaces down, router advertisements disabled on the
/// host veth. Its undo step is registered before. \throws cni::Error if the pod has an interface
/// with that name; netlink::Error.
VethPair create_veth_pair(Namespaces& sides, const NewVethPair& wanted, cni::Undo& undo);

/// For what asks IPAM before it creates the pair. \throws cni::Error if the pod has an interface
/// with that name, or that of an earlier ADD of the attachment.
void require_no_interface(Namespaces& sides);

/// Disables router advertisements on a link of this namespace; a failure is noted.
void ignore_router_advertisements(const netlink::Link& link);

/// Waits at most 2.5 seconds until the link is operational, so that what is sent to it is not
/// dropped. Returns the last state.
netlink::OperState wait_until_up(netlink::RouteSocket& where, const netlink::Link& link);
/// The same. \throws cni::Error with the sentence and the state where it is not.
void require_operational(netlink::RouteSocket& where, const netlink::Link& link,
                         const std::string& sentence);

/// DEL: removes what ADD created, from the config alone: with or without namespace and prevResult,
/// after half an ADD, twice. The config of ADD may have had other keys than that of DEL: the kernel
/// is asked for masquerading in any case, and then remove_rules is called, after the pod can send
/// no more. \throws cni::Error listing what failed.
void delete_veth_pair(const cni::Request& request,
                      const std::function<void(netlink::nf::NfSocket&)>& remove_rules = {});
/// GC: the same of this network's attachments that are not listed.
void collect_veth_pairs(const cni::Request& request, cni::Collect& collect,
                        const std::function<void()>& remove_rules = {});

/// MIGRATE: the reference plugins give a host veth no owner alias. to_masquerade: the addresses, if
/// the config has `ipMasq`.
void migrate_veth_pair(const cni::Request& request, cni::Repair& repair,
                       std::optional<MasqueradeBackend> backend,
                       const std::optional<Masquerade>& to_masquerade);

}  // namespace plugins
