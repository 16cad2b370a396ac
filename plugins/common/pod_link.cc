#include "plugins/common/pod_link.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "libcni/common/phase.h"
#include "libcni/plugin/ipam.h"
#include "libcni/plugin/privileges.h"
#include "plugins/common/addresses.h"
#include "plugins/common/master.h"
#include "plugins/common/owned_links.h"

namespace plugins {

namespace {

using cni::cat;
using cni::Code;
using netlink::Capability;
using netlink::Link;
using netlink::NetNs;
using netlink::RouteSocket;

// Where runtimes and ip-netns(8) keep the namespaces of pods.
constexpr const char* kNamespaces = "/run/netns";

NetNs open_with_rights(const cni::Request& request) {
  NetNs ns = cni::open_netns(request);
  cni::require_capabilities(request, {Capability::kSysAdmin});
  if (request.command != cni::Command::kCheck) {
    cni::require_capabilities(request, {Capability::kNetAdmin});
  }
  return ns;
}

bool is_of(const Link& link, const cni::Request& request) {
  return link.alias.starts_with(owner_of(request).prefix());
}

bool is_of_another(const Link& link, const cni::Request& request) {
  return cni::OwnerTag::is_tag(link.alias) && !is_of(link, request);
}

// What a link is called until it has CNI_IFNAME: see create().
std::string interim_name(const cni::Request& request) {
  return cat("cni", cni::sha512_hex(owner_of(request).prefix(), 8));
}

// Stands in undo before the interface is created: an answer of the kernel that got lost must not
// leave one behind. No link had the name before.
struct RemovePodLink {
  NetNs ns;
  std::string name, interim, kind;
  void operator()() const {
    RouteSocket pod(ns);
    for (const std::string& each : {name, interim}) {
      const auto link = pod.find(each);
      if (link && link->kind == kind) pod.send(netlink::remove_link(*link));
    }
  }
  std::string describe() const { return cat("remove '", name, "'"); }
};

// The pod's links of that kind which DEL removes: by the alias, else CNI_IFNAME, which the
// reference plugin made or an ADD that was killed. A pod may have renamed it and cleared its alias:
// if it has one link of that kind on a link of the node, which only the node can give it, it is
// that one.
std::vector<Link> removable(RouteSocket& pod, const cni::Request& request, std::string_view kind) {
  const auto links = pod.links_of_kind(kind);
  std::vector<Link> out;
  for (const Link& link : links) {
    const bool is_named = link.name == request.ifname || link.name == interim_name(request);
    if (is_of(link, request) || (is_named && !is_of_another(link, request))) out.push_back(link);
  }
  if (!out.empty()) return out;
  std::copy_if(links.begin(), links.end(), std::back_inserter(out), [&](const Link& link) {
    return link.parent_nsid == pod.nsid(NetNs::current()) && link.parent_nsid;
  });
  if (out.size() != 1 || is_of_another(out.front(), request)) out.clear();
  return out;
}

void remove_pod_link(const cni::Request& request, std::string_view kind) {
  const cni::Phase phase("link");
  const auto ns = NetNs::find(request.netns);
  if (!ns) return;
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  RouteSocket pod(*ns);
  for (const Link& link : removable(pod, request, kind)) pod.send(netlink::remove_link(link));
}

void release(const cni::Request& request) {
  cni::ipam_forward(request, cni::ipam_type(request), cni::Command::kDel);
}

// None where there is no such directory. A failure to read it is none of "there are no more".
std::vector<std::string> namespaces() {
  std::vector<std::string> out;
  std::error_code failure;
  std::filesystem::directory_iterator at(kNamespaces, failure);
  for (; !failure && at != std::filesystem::directory_iterator(); at.increment(failure)) {
    out.push_back(at->path());
  }
  if (failure && failure != std::errc::no_such_file_or_directory) {
    throw netlink::Error(cat("list '", kNamespaces, "'"), failure.value());
  }
  return out;
}

// Other plugins of the chain may have other interfaces, with addresses.
void keep_own(cni::Result& result, const cni::Request& request) {
  std::erase_if(result.ips, [&](const cni::Address& address) {
    if (!address.interface || *address.interface >= result.interfaces.size()) return false;
    const cni::Interface& entry = result.interfaces[*address.interface];
    return entry.name != request.ifname || entry.sandbox != request.netns;
  });
}

// master: as found in the namespace that the pod's has under that number, or in the pod's itself.
bool stands_on(const Link& link, const Link& master, const std::optional<int>& place) {
  // The kernel puts a macvlan or ipvlan on one of its kind on the link below that.
  if (master.kind == link.kind && link.kind != "vlan") {
    // Another namespace's number for a third one says nothing in the pod's.
    const bool is_known = !place || !master.parent_nsid;
    return link.parent_index == master.parent_index &&
           (!is_known || link.parent_nsid == (place ? place : master.parent_nsid));
  }
  return link.parent_index == master.index && link.parent_nsid == place;
}

// Of one namespace.
void collect_in(const NetNs& ns, std::string_view kind, const std::string& network,
                const std::vector<std::string>& kept) {
  RouteSocket pod(ns);
  for (const Link& link : pod.links_of_kind(kind)) {
    if (!link.alias.starts_with(network)) continue;
    const bool keep = std::any_of(kept.begin(), kept.end(), [&](const std::string& prefix) {
      return link.alias.starts_with(prefix);
    });
    if (!keep) pod.send(netlink::remove_link(link));
  }
}

// Kernels before 6.15 create a link beside its parent, on the node, and move it then
// (rtnl_newlink_create() in net/core/rtnetlink.c): a link of the node that has the name is in the
// way.
void create(Sides& sides, netlink::NewLink spec) {
  const auto refusal = sides.pod.attempt(netlink::add(spec));
  if (!refusal) return;
  if (!spec.parent_nsid || refusal->error() != EEXIST || !sides.host.find(spec.name)) {
    throw netlink::Error(*refusal);
  }
  const std::string name = std::exchange(spec.name, interim_name(sides.request));
  sides.pod.send(netlink::add(spec));
  sides.pod.send(netlink::set_link(sides.pod.get(spec.name), {.name = name}));
}

}  // namespace

Sides::Sides(const cni::Request& the_request)
    : request(the_request), pod_ns(open_with_rights(the_request)), pod(pod_ns) {}

void set_parent(Sides& sides, netlink::NewLink& spec, const Link& parent, bool in_pod) {
  spec.parent = parent.index;
  // The link is created in the pod's namespace, where CNI_IFNAME is free.
  if (!in_pod) spec.parent_nsid = sides.pod.ensure_nsid(NetNs::current());
}

void expect_pod_link(Sides& sides, std::string_view kind, cni::Undo& undo) {
  const std::string& name = sides.request.ifname;
  if (sides.pod.find(name)) {
    throw cni::Error(Code::kInternal, cat("failed to create ", kind, " '", name, "': file exists"),
                     "the pod has an interface with this name: delete it, or use another "
                     "CNI_IFNAME");
  }
  undo.add(RemovePodLink{sides.pod_ns, name, interim_name(sides.request), std::string(kind)});
}

Link create_pod_link(Sides& sides, netlink::NewLink spec, cni::Undo& undo) {
  const cni::Phase phase("link");
  spec.name = sides.request.ifname;
  expect_pod_link(sides, spec.kind, undo);
  cni::during(cat("failed to create ", spec.kind), [&] { create(sides, spec); });
  return sides.pod.get(spec.name);
}

cni::Result attach_pod_link(Sides& sides, const Link& link, const std::string& ipam_type,
                            const AddressOptions& options, cni::Undo& undo) {
  sides.pod.send(netlink::set_link(link, {.alias = owner_of(sides.request).text}));
  cni::Result result;
  if (ipam_type.empty()) {
    sides.pod.send(netlink::set_link(link, {.up = true}));
  } else {
    cni::Result addresses = request_addresses(sides.request, ipam_type, 0, undo);
    result.ips = std::move(addresses.ips);
    result.routes = std::move(addresses.routes);
    result.dns = std::move(addresses.dns);
  }
  result.interfaces = {describe(link, sides.request.netns)};
  if (!ipam_type.empty()) configure_interface({sides.pod, sides.pod_ns, link}, result, options);
  return result;
}

void delete_pod_link(const cni::Request& request, std::string_view kind) {
  cni::BestEffort each;
  std::string ipam_type;
  each("release the addresses", [&] { ipam_type = cni::ipam_type(request); });
  const bool over_the_link = ipam_type == "dhcp";
  if (over_the_link) each("release the addresses", [&] { release(request); });
  bool is_gone = false;
  each("remove the interface", [&] {
    remove_pod_link(request, kind);
    is_gone = true;
  });
  // Whoever gets the addresses next must not meet this pod.
  if (is_gone && !over_the_link) each("release the addresses", [&] { release(request); });
  each.finish();
}

Link check_pod_link(Sides& sides, const std::string& ipam_type, std::string_view kind) {
  return check_pod_link(sides, ipam_type, kind, sides.request.required_prev_result());
}

Link check_pod_link(Sides& sides, const std::string& ipam_type, std::string_view kind,
                    cni::Result result) {
  cni::ipam_forward(sides.request, ipam_type, cni::Command::kCheck);
  keep_own(result, sides.request);
  const Link link = find_interface(sides.pod, sides.request, result, std::string(kind));
  if (!link.up) throw cni::Error(Code::kInternal, cat("Interface ", link.name, " is down"));
  check_interface({sides.pod, sides.pod_ns, link}, result);
  return link;
}

void require_mtu_of(const Link& link, unsigned mtu) {
  if (mtu == 0 || link.mtu == mtu) return;
  throw cni::Error(Code::kInternal,
                   cat("Interface ", link.name, " has MTU ", link.mtu, ", the config has ", mtu));
}

void require_parent(Sides& sides, const Link& link, const std::string& configured, bool in_pod) {
  const auto node = sides.pod.nsid(NetNs::current());
  if (configured.empty()) {
    if (in_pod ? !link.parent_nsid : node && link.parent_nsid == node) return;
    throw cni::Error(Code::kInternal, cat("Interface ", link.name, " stands on no link of the ",
                                          in_pod ? "pod" : "node"));
  }
  const Link master = find_master(in_pod ? sides.pod : sides.host, configured);
  if (stands_on(link, master, in_pod ? std::nullopt : node)) return;
  throw cni::Error(Code::kInternal, cat("Interface ", link.name,
                                        " stands on another link than master '", master.name, "'"));
}

void collect_pod_links(const cni::Request& request, std::string_view kind) {
  const auto valid = request.valid_attachments();
  if (!valid) return;
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  const std::string network = cni::OwnerTag(request.network, "", "").network_hash + '-';
  std::vector<std::string> kept;
  for (const cni::Attachment& one : *valid) {
    kept.push_back(cni::OwnerTag(request.network, one.container_id, one.ifname).prefix());
  }
  cni::BestEffort each;
  std::vector<std::string> paths;
  bool are_gone = false;
  each("find the links", [&] {
    paths = namespaces();
    are_gone = true;
  });
  for (const std::string& path : paths) {
    bool done = false;
    each(cat("remove links in ", path), [&] {
      if (const auto ns = NetNs::find(path)) collect_in(*ns, kind, network, kept);
      done = true;
    });
    are_gone = are_gone && done;
  }
  if (are_gone) {
    each("collect addresses",
         [&] { cni::ipam_forward(request, cni::ipam_type(request), cni::Command::kGc); });
  }
  each.finish();
}

void require_pod_link_support(const cni::Request& request, std::string_view kind,
                              const std::string& ipam_type) {
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  RouteSocket host;
  if (!host.knows_kind(kind)) {
    throw cni::Error(Code::kPluginUnavailable, cat("the kernel cannot make links of kind ", kind));
  }
  cni::ipam_forward(request, ipam_type, cni::Command::kStatus);
}

cni::Result repair_pod_link(const cni::Request& request, void (*check)(const cni::Request&)) {
  check(request);
  return request.required_prev_result();
}

}  // namespace plugins
