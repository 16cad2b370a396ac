#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "netlink/route/socket.h"
#include "plugins/common/link/interface.h"

/// Container interfaces without an end on the node: dummy, macvlan, ipvlan, vlan, tap. The owner
/// alias is on the interface itself, where the pod can write it; it says which of the pod's links
/// an attachment may remove, nothing more.
namespace plugins {

/// Stands the new link on its parent: a link on the node, or with in_pod of the pod.
void set_parent(Namespaces& sides, netlink::NewLink& spec, const netlink::Link& parent,
                bool in_pod);

/// Creates the container interface, down, named CNI_IFNAME, in one message, with its undo step.
/// \throws cni::Error where the pod has an interface of that name; netlink::Error.
netlink::Link create_pod_link(Namespaces& sides, netlink::NewLink spec, cni::Undo& undo);
/// The same in steps, for what no netlink message creates (tap): refuses a name that is taken, and
/// registers the undo step. kind: as netlink shows it.
void expect_free_name(Namespaces& sides, const std::string& sentence);
void undo_pod_link(Namespaces& sides, std::string_view kind, cni::Undo& undo);

/// The second half of ADD: writes the owner alias, then sets the interface up, with addresses and
/// routes where the config has an IPAM plugin, whose DNS is in the result.
cni::Result attach_pod_link(const PodInterface& interface, const std::string& ipam_type,
                            const AddressOptions& options, cni::Undo& undo);

/// DEL: removes the container interface, if it is of that kind and no other attachment's; then
/// releases the addresses (disconnect_and_release()). Where the pod renamed it, its alias leads to
/// it, or the MAC address of prevResult: what lacks both goes with the namespace.
void delete_pod_link(const cni::Request& request, std::string_view kind);

/// CHECK: asks the IPAM plugin, and compares the interface with the result, prevResult or what the
/// plugin makes of it for the kernel. Returns the interface.
/// \throws cni::Error naming the first difference.
netlink::Link check_pod_link(Namespaces& sides, const std::string& ipam_type,
                             const CheckWords& words);
netlink::Link check_pod_link(Namespaces& sides, const std::string& ipam_type,
                             const CheckWords& words, cni::Result result);

/// CHECK: \throws cni::Error where the interface has another MTU; 0 is any.
void require_mtu_of(const netlink::Link& link, unsigned mtu);
/// The same where the reference plugin ignores the key: its links, which have no alias, may have
/// any.
void require_mtu_of_ours(const netlink::Link& link, unsigned mtu);

/// CHECK: the interface stands on the master, a link of the node, or with in_pod of the pod.
/// \throws cni::Error.
void require_parent(Namespaces& sides, const netlink::Link& link, const netlink::Link& master,
                    bool in_pod);
/// The same for the configured master; for "" on any link there, since the default route may have
/// moved after ADD.
void require_parent(Namespaces& sides, const netlink::Link& link, const std::string& master,
                    bool in_pod);

/// GC: removes the links of that kind, in the namespaces below /run/netns, whose alias is of no
/// valid attachment; then calls GC of the IPAM plugin.
void collect_pod_links(const cni::Request& request, std::string_view kind, cni::Collect& collect);

/// STATUS: \throws cni::Error(kPluginUnavailable), which names the module, where the kernel has no
/// links of that kind.
void require_kind(netlink::RouteSocket& host, std::string_view kind);

/// STATUS: the rights that ADD needs, the kernel's support of the kind, and the IPAM plugin's
/// STATUS.
void require_pod_link_support(const cni::Request& request, std::string_view kind,
                              const std::string& ipam_type);

/// REPAIR: throws what is wrong with the container interface, which only a new pod mends.
[[noreturn]] void restart_hint(const cni::Error& e);
/// REPAIR: such an interface has nothing on the node that could be missing but the leases of its
/// addresses; what CHECK finds can only be mended by a new pod. Returns the result. \throws what
/// check throws.
cni::Result repair_pod_link(const cni::Request& request, cni::Repair& repair,
                            void (*check)(const cni::Request&));

/// The plugin with the verbs that all of these have alike: DEL, GC, REPAIR and --validate.
/// kKind: as netlink shows the link; kParse: reads the config as ADD does.
template <const char* kKind, auto kCheck, auto kParse>
constexpr cni::Plugin pod_link_plugin(cni::Plugin own) {
  own.verbs.del = [](const cni::Request& request) { delete_pod_link(request, kKind); };
  own.verbs.check = kCheck;
  own.verbs.gc = [](const cni::Request& request, cni::Collect& collect) {
    collect_pod_links(request, kKind, collect);
  };
  own.verbs.validate = [](const cni::Request& request) { kParse(request); };
  own.verbs.repair = [](const cni::Request& request, cni::Repair& repair) {
    return repair_pod_link(request, repair, kCheck);
  };
  return own;
}

/// Leaves the addresses of the container interface in prevResult: other plugins of the chain, as
/// devices, may have other interfaces, with addresses.
void keep_own(cni::Result& result, const cni::Request& request);

}  // namespace plugins
