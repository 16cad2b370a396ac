#include "plugins/common/link/pod_link.h"

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
#include "netlink/types/hints.h"
#include "plugins/common/link/addresses.h"
#include "plugins/common/link/host_veth.h"
#include "plugins/common/link/master.h"
#include "plugins/common/link/owned_links.h"

namespace plugins {

namespace {

using cni::cat;
using cni::Code;
using netlink::Capability;
using netlink::Link;
using netlink::NetNs;
using netlink::RouteSocket;

// Runtimes and ip-netns(8) keep the namespaces of pods there.
constexpr const char* kNamespaces = "/run/netns";

bool is_of(const Link& link, const cni::Request& request) {
  return link.alias.starts_with(owner_of(request).prefix());
}

bool is_of_another(const Link& link, const cni::Request& request) {
  return cni::OwnerTag::is_tag(link.alias) && !is_of(link, request);
}

// The link's name until it gets CNI_IFNAME: see create().
std::string interim_name(const cni::Request& request) {
  return cat("cni", cni::sha512_hex(owner_of(request).prefix(), 8));
}

struct RemovePodLink {
  NetNs ns;
  std::string name, kind;
  void operator()() const {
    RouteSocket pod(ns);
    const auto link = pod.find(name);
    if (link && link->kind == kind) pod.send(netlink::remove_link(*link));
  }
  std::string describe() const { return cat("remove '", name, "'"); }
};

// vlan and ipvlan have the MAC address of their master, as all others on it.
bool has_own_mac(std::string_view kind) { return kind != "vlan" && kind != "ipvlan"; }

/// The container interface as prevResult has it: what the pod does to its links changes nothing of
/// it. Empty where DEL has no prevResult.
struct Known {
  std::optional<netlink::Mac> mac = {};
  std::vector<netlink::Ip> addresses = {};
};

Known known_of(const cni::Request& request) {
  Known out;
  const auto result = readable_prev_result(request);
  if (!result) return out;
  const auto& all = result->interfaces;
  const auto own = std::ranges::find_if(all, [&](const cni::Interface& one) {
    return one.name == request.ifname && !one.sandbox.empty();
  });
  if (own == all.end()) return out;
  out.mac = netlink::Mac::parse(own->mac);
  const auto index = static_cast<std::size_t>(own - all.begin());
  for (const cni::Address& address : result->ips) {
    if (address.interface == index) out.addresses.push_back(address.cidr.ip);
  }
  return out;
}

// Whether the link has one of the known addresses, or others instead; empty: it has none.
std::optional<bool> has_known_address(RouteSocket& pod, const Known& known, const Link& link) try {
  std::optional<bool> out;
  for (const auto& address : pod.addresses(link)) {
    if (known.addresses.empty() || address.cidr.ip.is_link_local()) continue;
    const auto& all = known.addresses;
    if (std::ranges::find(all, address.cidr.ip) != all.end()) return true;
    out = false;
  }
  return out;
} catch (const netlink::Error& e) {
  if (e.error() != ENODEV) throw;
  return std::nullopt;  // removed meanwhile
}

// The alias says whose a link is. It has none where the reference plugin made it, after half an
// ADD, or where the pod removed it. Then the name counts unless prevResult says otherwise, because
// the path of the namespace may be another container's by now; a link with another name counts if
// prevResult says that the pod has renamed it.
bool is_removable(RouteSocket& pod, const cni::Request& request, const Known& known,
                  const Link& link) {
  if (is_of(link, request) || link.name == interim_name(request)) return true;
  if (is_of_another(link, request)) return false;
  const bool is_named = link.name == request.ifname;
  if (known.mac ? *known.mac != link.mac : !is_named) return false;
  return has_known_address(pod, known, link).value_or(is_named || has_own_mac(link.kind));
}

void remove_pod_link(const cni::Request& request, std::string_view kind) {
  const cni::Phase phase("link");
  const auto ns = NetNs::find(request.netns);
  if (!ns) return;
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  RouteSocket pod(*ns);
  const Known known = known_of(request);
  for (const Link& link : pod.links_of_kind(kind)) {
    if (is_removable(pod, request, known, link)) pod.send(netlink::remove_link(link));
  }
}

// Empty if the directory does not exist. A failure to read it must not pass for its end.
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

void collect_in(const NetNs& ns, std::string_view kind, cni::Collect& collect) {
  RouteSocket pod(ns);
  for (const Link& link : pod.links_of_kind(kind)) {
    if (collect.takes_in_pod(cat("link '", link.name, "'"), link.alias)) {
      pod.send(netlink::remove_link(link));
    }
  }
}

// Sends what makes spec.name the attachment's. What the kernel refuses leaves nothing to undo: the
// name may be that of a parallel ADD's interface. An answer that got lost must not leave one
// behind.
std::optional<netlink::Error> make(Namespaces& sides, netlink::RouteRequest request,
                                   const netlink::NewLink& spec, cni::Undo& undo) {
  const RemovePodLink remove{sides.pod_ns, spec.name, spec.kind};
  cni::Undo unanswered;
  unanswered.add(remove);
  auto refusal = sides.pod.attempt(std::move(request));
  unanswered.commit();
  if (!refusal) undo.add(remove);
  return refusal;
}

// Kernels before 6.15 create a link beside its parent, on the node, and move it then
// (rtnl_newlink_create() in net/core/rtnetlink.c): a link of the node that has the name is in the
// way.
std::optional<netlink::Error> create(Namespaces& sides, netlink::NewLink spec, cni::Undo& undo) {
  auto refusal = make(sides, netlink::add(spec), spec, undo);
  if (refusal && spec.parent_nsid && refusal->error() == EEXIST && sides.host().find(spec.name)) {
    const std::string name = std::exchange(spec.name, interim_name(sides.request));
    refusal = make(sides, netlink::add(spec), spec, undo);
    if (refusal) return refusal;
    auto rename = netlink::set_link(sides.pod.get(spec.name), {.name = name});
    spec.name = name;
    refusal = make(sides, std::move(rename), spec, undo);
  }
  return refusal;
}

}  // namespace

void keep_own(cni::Result& result, const cni::Request& request) {
  std::erase_if(result.ips, [&](const cni::Address& address) {
    if (!address.interface || *address.interface >= result.interfaces.size()) return false;
    const cni::Interface& entry = result.interfaces[*address.interface];
    return entry.name != request.ifname || entry.sandbox != request.netns;
  });
}

void set_parent(Namespaces& sides, netlink::NewLink& spec, const Link& parent, bool in_pod) {
  spec.parent = parent.index;
  // The link is created in the pod's namespace, where CNI_IFNAME is free.
  if (!in_pod) spec.parent_nsid = sides.pod.ensure_nsid(NetNs::current());
}

void expect_free_name(Namespaces& sides, const std::string& sentence) {
  const std::string& name = sides.request.ifname;
  if (!sides.pod.find(name)) return;
  throw cni::Error(
      Code::kInternal, cat(sentence, ": file exists"),
      cat("the pod has an interface '", name, "': delete it, or use another CNI_IFNAME"));
}

void undo_pod_link(Namespaces& sides, std::string_view kind, cni::Undo& undo) {
  undo.add(RemovePodLink{sides.pod_ns, sides.request.ifname, std::string(kind)});
}

Link create_pod_link(Namespaces& sides, netlink::NewLink spec, cni::Undo& undo) {
  const cni::Phase phase("link");
  spec.name = sides.request.ifname;
  const std::string sentence = cat("failed to create ", spec.kind);
  // The reference plugins create a link on another under a name of its own.
  const bool renamed = spec.parent != 0;
  expect_free_name(
      sides, renamed ? cat("failed to rename ", spec.kind, " to \"", spec.name, "\"") : sentence);
  if (const auto refusal = create(sides, spec, undo)) throw cni::in_words(sentence, *refusal);
  return sides.pod.get(spec.name);
}

cni::Result attach_pod_link(const PodInterface& interface, const std::string& ipam_type,
                            const AddressOptions& options, cni::Undo& undo) {
  auto& [sides, link] = interface;
  sides.pod.send(netlink::set_link(link, {.alias = owner_of(sides.request).text}));
  cni::Result result;
  if (ipam_type.empty()) {
    sides.pod.send(netlink::set_link(link, {.up = true}));
  } else {
    const AddressSource source{ipam_type, options.ignore_default_route};
    const auto ask = [&request = sides.request, &source, &undo] {
      return request_addresses(request, source, undo);
    };
    // Only vlan of the reference plugins has this prefix.
    cni::Result addresses =
        link.kind == "vlan" ? cni::during("failed to execute IPAM delegate", ask) : ask();
    result.ips = std::move(addresses.ips);
    result.routes = std::move(addresses.routes);
    result.dns = std::move(addresses.dns);
  }
  result.interfaces = {describe(link, sides.request.netns)};
  if (!ipam_type.empty()) configure_interface(interface, result, options);
  return result;
}

void delete_pod_link(const cni::Request& request, std::string_view kind) {
  disconnect_and_release(request, [&](cni::BestEffort& each) {
    return each("remove the interface", [&] { remove_pod_link(request, kind); });
  });
}

Link check_pod_link(Namespaces& sides, const std::string& ipam_type, const CheckWords& words) {
  return check_pod_link(sides, ipam_type, words,
                        sides.request.required_prev_result(words.required));
}

Link check_pod_link(Namespaces& sides, const std::string& ipam_type, const CheckWords& words,
                    cni::Result result) {
  cni::ipam_forward(sides.request, ipam_type, cni::Command::kCheck);
  keep_own(result, sides.request);
  const Link link = find_interface(sides, result, words);
  if (!link.up) throw cni::Error(Code::kInternal, cat("Interface ", link.name, " is down"));
  check_interface({sides, link}, result);
  return link;
}

void require_mtu_of(const Link& link, unsigned mtu) {
  if (mtu == 0 || link.mtu == mtu) return;
  throw cni::Error(Code::kInternal,
                   cat("Interface ", link.name, " has MTU ", link.mtu, ", the config has ", mtu));
}

void require_mtu_of_ours(const Link& link, unsigned mtu) {
  if (cni::OwnerTag::is_tag(link.alias)) require_mtu_of(link, mtu);
}

void require_parent(Namespaces& sides, const Link& link, const Link& master, bool in_pod) {
  const auto where = in_pod ? std::nullopt : sides.pod.nsid(NetNs::current());
  if (stands_on(link, master, where)) return;
  throw cni::Error(Code::kInternal, cat("Interface ", link.name,
                                        " stands on another link than master '", master.name, "'"));
}

void require_parent(Namespaces& sides, const Link& link, const std::string& configured,
                    bool in_pod) {
  if (!configured.empty()) {
    RouteSocket& where = in_pod ? sides.pod : sides.host();
    const auto find = link.kind == "ipvlan" ? lookup_master : find_master;
    return require_parent(sides, link, find(where, configured), in_pod);
  }
  const auto node = sides.pod.nsid(NetNs::current());
  if (in_pod ? !link.parent_nsid : node && link.parent_nsid == node) return;
  throw cni::Error(Code::kInternal, cat("Interface ", link.name, " stands on no link of the ",
                                        in_pod ? "pod" : "node"));
}

void collect_pod_links(const cni::Request& request, std::string_view kind, cni::Collect& collect) {
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  disconnect_and_collect(request, collect, [&](cni::BestEffort& each) {
    if (collect.removes_named()) return true;  // the kernel removed them with their namespaces
    std::vector<std::string> paths;
    bool are_gone = each("find the links", [&] { paths = namespaces(); });
    for (const std::string& path : paths) {
      const bool done = each(cat("remove links in ", path), [&] {
        if (const auto ns = NetNs::find(path)) collect_in(*ns, kind, collect);
      });
      are_gone = are_gone && done;
    }
    return are_gone;
  });
}

void require_kind(netlink::RouteSocket& host, std::string_view kind) {
  if (host.knows_kind(kind)) return;
  throw cni::Error(Code::kPluginUnavailable, cat("the kernel cannot make links of kind ", kind),
                   netlink::load_hint(netlink::module_of(kind)));
}

void require_pod_link_support(const cni::Request& request, std::string_view kind,
                              const std::string& ipam_type) {
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  RouteSocket host;
  require_kind(host, kind);
  cni::ipam_forward(request, ipam_type, cni::Command::kStatus);
}

cni::Result repair_pod_link(const cni::Request& request, cni::Repair& repair,
                            void (*check)(const cni::Request&)) {
  cni::Result result = request.required_prev_result();
  if (cni::ipam_repair(request, cni::ipam_type(request), repair)) check(request);
  return result;
}

void restart_hint(const cni::Error& e) { throw cni::Error(e.code(), e.what(), "restart the pod"); }

}  // namespace plugins
