#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libcni/config/result.h"
#include "libcni/plugin/request.h"
#include "plugins/common/link/namespaces.h"

/// The host veth of an attachment. Root in a pod chooses the names, indexes and MAC addresses of
/// its links, so none of these identifies the host veth. What does is set on the host: the derived
/// name and the owner alias, and the kernel's word about the other end (IFLA_LINK together with
/// IFLA_LINK_NETNSID).
namespace plugins {

/// Names that ADD tries one after the other where the first ones are taken.
inline constexpr unsigned kHostVethNames = 5;

/// The name of the attachment's host veth, from the hash of its owner, OwnerTag::prefix(). attempt:
/// below kHostVethNames.
std::string host_veth_name(const std::string& owner, unsigned attempt = 0);
std::string host_veth_name(const cni::Request& request, unsigned attempt = 0);

/// The veths on the host with a derived name of the owner and its alias. Wherever the other end is.
std::vector<netlink::Link> host_veths_of(netlink::RouteSocket& host, const std::string& owner);

/// The same, and those that have no alias yet, as after half an ADD. Usually one.
std::vector<netlink::Link> host_veths_of(netlink::RouteSocket& host, const cni::Request& request);

/// The host veth whose other end is `inside` of pod_ns. Nothing where the other end of `inside` is
/// not on the host, or where the alias says that the host veth belongs to another attachment.
std::optional<netlink::Link> host_veth_of(netlink::RouteSocket& host, const cni::Request& request,
                                          const netlink::NetNs& pod_ns,
                                          const netlink::Link& inside);
inline std::optional<netlink::Link> host_veth_of(Namespaces& sides, const netlink::Link& inside) {
  return host_veth_of(sides.host(), sides.request, sides.pod_ns, inside);
}

/// The same for a plugin that is chained after any other. Plugins of other projects report the
/// container interface alone, or links that are not its host veth: then the kernel's word decides.
/// Nothing where the result names another host veth of the pod: the pod has exchanged its
/// interfaces.
std::optional<netlink::Link> chained_host_veth(Namespaces& sides, const cni::Result& result,
                                               const netlink::Link& inside);

/// Whether the alias of the host veth of `inside` says that it belongs to another attachment: one
/// that has the path of the namespace by now, or another one of the same pod.
bool is_of_another(netlink::RouteSocket& host, const cni::Request& request,
                   const netlink::NetNs& pod_ns, const netlink::Link& inside);

/// Whether the result names that link as one of the host. True for a result without interfaces, as
/// those before version 0.3.0 are.
bool names_host_link(const cni::Result& result, const std::string& link);

/// For DEL: the host veths of the attachment, those made by the reference plugins included. They
/// have no alias: CNI_IFNAME leads to them, or prevResult, and what they lead to counts only if its
/// other end is in the pod's namespace and prevResult, if there is one, names it.
std::vector<netlink::Link> removable_host_veths(netlink::RouteSocket& host,
                                                const cni::Request& request);

/// prevResult for DEL, which goes on without one that cannot be read.
std::optional<cni::Result> readable_prev_result(const cni::Request& request);

}  // namespace plugins
