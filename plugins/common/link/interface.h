#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/config/result.h"
#include "libcni/plugin/request.h"
#include "plugins/common/link/namespaces.h"

namespace plugins {

struct AddressOptions {
  /// Duplicate address detection: off for a link that nobody else can share, so that an IPv6
  /// address is usable at once.
  bool enable_dad = false;
  /// With enable_dad on a segment that others share: IPv4 addresses too, by ARP probes, which take
  /// a second, and the error names the MAC address of who has it. Needs CAP_NET_RAW.
  bool probe = false;
  /// Whether the pod believes router advertisements. Where the node is its gateway nobody but
  /// another pod would send any (CVE-2020-10749).
  bool accept_ra = true;
  /// `ignoreDefaultRoute`: nor does the interface take a default route from router advertisements.
  bool ignore_default_route = false;
  /// Whether the kernel announces the addresses when the interface comes up. A bridge port does not
  /// forward then: see announce().
  bool announce_when_up = true;
  /// Routes to the gateways and subnets, in place of the kernel's own ones to the subnets; added
  /// before those of the result.
  std::optional<std::vector<netlink::LinkRoute>> subnet_routes = {};
};

/// Gives the interface the addresses and routes of result that are meant for it (those with an
/// interface index; it must be this interface's entry), and sets it up. Addresses come first, so
/// that the kernel announces them when the link comes up, to whoever knew them under another MAC
/// address. A route without gateway gets the first
/// gateway of its family, unless its scope says that it needs none; one that is in no subnet may be
/// on the link (reach_of()).
/// \throws netlink::Error; cni::Error for a bad index or an address found elsewhere (enable_dad).
void configure_interface(const PodInterface& interface, const cni::Result& result,
                         const AddressOptions& options);

class Neighbours;

/// Waits until the kernel has found no duplicate of the interface's IPv6 addresses.
/// \throws cni::Error where one is a duplicate, naming its owner where the neighbours told, and
/// after 5 s (kTryAgainLater).
void wait_for_dad(const PodInterface& interface, Neighbours* neighbours = nullptr);

/// The addresses of a result that are the interface's: those that no other one is named for.
std::vector<cni::Address> addresses_of(const cni::Result& result, const std::string& ifname);

/// A route of a result for an interface with these addresses.
netlink::LinkRoute link_route(const cni::Route& route, const std::vector<cni::Address>& addresses);

/// Corrects who knows result's addresses under another MAC address: the neighbour entries of
/// `device`, a link of the host on the pod's segment, and the pods on it, to which the kernel
/// sends gratuitous ARP and unsolicited neighbour advertisements. Of use only once the interface's
/// frames are forwarded. \throws netlink::Error.
void announce(const netlink::Link& device, const PodInterface& interface,
              const cni::Result& result);

/// The link as an entry of a result's `interfaces`. sandbox: CNI_NETNS, empty for a host link.
cni::Interface describe(const netlink::Link& link, const std::string& sandbox = {});

/// The entry of result for a link of the node. \throws cni::Error where there is none.
const cni::Interface& entry_of(const cni::Result& result, const std::string& name);

/// CHECK: whether the link has the MAC address of its entry, or the entry none.
bool has_mac_of(const cni::Interface& entry, const netlink::Link& link);

/// CHECK: the kind of a container interface, and how the sentences of its reference plugin begin.
struct CheckWords {
  std::string kind;  ///< of the link; empty: any
  std::string type = kind;
  std::string required = "Required prevResult missing";
  std::string sandbox = "Sandbox";
  std::string missing = "Container Interface name in prevResult: ";
  std::string missing_end = " not found";
  std::string error = "Error";
  std::string mac = "Interface";
};

/// CHECK: the pod's interface as result describes it, a link of that kind. \throws cni::Error.
netlink::Link find_interface(Namespaces& sides, const cni::Result& result, const CheckWords& words);

/// CHECK: the unicast routes of the pod, one for each next hop, as the interface's plugin made
/// them: what sbr or vrf moved to a table of the interface is shown in the main table.
std::vector<netlink::LinkRoute> routes_as_made(const PodInterface& interface,
                                               netlink::Family family,
                                               const std::vector<cni::Address>& addresses);

/// CHECK: the interface has result's addresses and the namespace its routes (routes_as_made()).
/// \throws cni::Error naming the first one that is missing.
void check_interface(const PodInterface& interface, const cni::Result& result);

}  // namespace plugins
