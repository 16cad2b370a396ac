#include "plugins/common/link/veth_pair.h"

#include <cerrno>
#include <chrono>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "netlink/nf/socket.h"
#include "netlink/sysctl.h"
#include "plugins/common/firewall/ip_masq.h"
#include "plugins/common/link/addresses.h"
#include "plugins/common/link/host_veth.h"
#include "plugins/common/link/owned_links.h"

namespace plugins {

namespace {

namespace nf = netlink::nf;
using cni::cat;
using netlink::Link;
using netlink::Mac;
using netlink::RouteSocket;

// Stands in undo before the pair is made: an answer of the kernel that got lost must not leave one
// behind. The MAC address, chosen for this call, tells it from another pod's.
struct RemoveVeth {
  std::string name;
  Mac mac;
  void operator()() const {
    RouteSocket host;
    const auto link = host.find(name);
    if (link && link->mac == mac) host.send(netlink::remove_link(*link));
  }
  std::string describe() const { return cat("remove '", name, "'"); }
};

// \throws cni::Error where the pod has the name, or the interface of an earlier ADD of the
// attachment, whatever the pod calls it.
void require_no_interface(Namespaces& sides, const std::string& outside) {
  const std::string& name = sides.request.ifname;
  const auto refuse = [&](const char* way_out) {
    throw cni::Error(cni::Code::kInternal,
                     cat("container veth name (\"", name, "\") peer provided (\"", outside,
                         "\") already exists"),
                     way_out);
  };
  if (sides.pod.find(name)) {
    refuse("the pod has an interface with this name: delete it, or use another CNI_IFNAME");
  }
  const auto link = sides.host().find(outside);
  if (link && link->alias.starts_with(owner_of(sides.request).prefix()) && link->peer_nsid &&
      link->peer_nsid == sides.host().nsid(sides.pod_ns)) {
    refuse("the pod has the interface of an earlier ADD under another name: call DEL");
  }
}

// False where the outer name is taken.
bool try_connect(Namespaces& sides, const netlink::Veth& spec, cni::Undo& undo) {
  undo.add(RemoveVeth{spec.end.name, spec.end.mac});
  try {
    sides.host().send(netlink::add(spec));
    return true;
  } catch (const netlink::Error& e) {
    if (e.error() != EEXIST) throw cni::in_words("failed to make veth pair", e);
    require_no_interface(sides, spec.end.name);
    return false;
  }
}

// Finds it by the peer index of the other end, because the pod may rename links meanwhile.
Link made_inside(RouteSocket& pod, const Link& outside, const netlink::VethEnd& wanted) {
  auto inside = pod.find(outside.peer_index);
  if (!inside || inside->name != wanted.name || inside->mac != wanted.mac) {
    throw cni::Error(cni::Code::kInternal,
                     cat("create veth pair '", outside.name, "' and '", wanted.name,
                         "': the pod changed the container interface meanwhile"));
  }
  return *std::move(inside);
}

void remove_veth_pair(const cni::Request& request) {
  const cni::Phase phase("veth");
  RouteSocket host;
  for (const Link& link : removable_host_veths(host, request)) {
    host.send(netlink::remove_link(link));
  }
}

}  // namespace

VethPair create_veth_pair(Namespaces& sides, const NewVethPair& wanted, cni::Undo& undo) {
  const cni::Phase phase("veth");
  netlink::Veth spec{
      .end = {.name = host_veth_name(sides.request), .mac = Mac::random(), .master = wanted.master},
      .peer = {.name = sides.request.ifname, .mac = wanted.mac ? *wanted.mac : Mac::random()},
      .peer_ns = sides.pod_ns,
      .mtu = wanted.mtu};
  for (unsigned attempt = 1; !try_connect(sides, spec, undo); ++attempt) {
    if (attempt == kHostVethNames) {
      throw cni::Error(cni::Code::kTryAgainLater, "failed to find a unique veth name");
    }
    spec.end.name = host_veth_name(sides.request, attempt);
  }
  const Link outside = sides.host().get(spec.end.name);
  VethPair pair{outside, made_inside(sides.pod, outside, spec.peer)};
  ignore_router_advertisements(pair.outside);
  return pair;
}

void require_no_interface(Namespaces& sides) {
  require_no_interface(sides, host_veth_name(sides.request));
}

void ignore_router_advertisements(const Link& link) {
  if (!link.ipv6 || link.ipv6->accept_ra == 0) return;
  try {
    netlink::write_sysctl(cat("net/ipv6/conf/", link.name, "/accept_ra"), "0");
  } catch (const netlink::Error& e) {  // a read-only /proc/sys is no reason to have no network
    cni::note(cat(e.what(), "; a pod could send router advertisements to the node"));
  }
}

netlink::OperState wait_until_up(RouteSocket& where, const Link& link) {
  const cni::Phase phase("wait");
  constexpr std::chrono::milliseconds kLimit{2500};
  auto state = netlink::OperState::kUnknown;
  const auto is_up = [&] {
    const auto now = where.find(link.index);
    if (!now) throw netlink::Error(cat("look up link '", link.name, "'"), ENODEV);
    state = now->oper_state;
    return state == netlink::OperState::kUp;
  };
  where.wait_until(is_up, kLimit);
  return state;
}

void require_operational(RouteSocket& where, const Link& link, const std::string& sentence) {
  const auto state = wait_until_up(where, link);
  if (state == netlink::OperState::kUp) return;
  throw cni::Error(cni::Code::kInternal, cat(sentence, ": ", netlink::str(state)),
                   cat("link '", link.name, "'"));
}

void delete_veth_pair(const cni::Request& request,
                      const std::function<void(nf::NfSocket&)>& remove_rules) {
  const bool masqueraded = was_masqueraded(request.reader());
  require_removal_rights(request, masqueraded);
  disconnect_and_release(request, [&](cni::BestEffort& each) {
    Masquerade masquerade{request.key(), {}};
    each("look up the addresses", [&] {  // as long as the interface shows them
      masquerade = masquerade_to_remove(request);
    });
    const bool is_gone = each("remove the interface", [&] { remove_veth_pair(request); });
    std::optional<nf::NfSocket> nf;
    each("open nfnetlink", [&] { nf = nf::NfSocket::find(); });
    if (nf) each("remove the masquerading", [&] { remove_nft_masquerade(*nf, masquerade); });
    if (nf && remove_rules) each("remove the rules of the port", [&] { remove_rules(*nf); });
    if (masqueraded) {
      each("remove the masquerading", [&] { remove_legacy_masquerade(masquerade); });
    }
    return is_gone;
  });
}

void migrate_veth_pair(const cni::Request& request, cni::Repair& repair,
                       std::optional<MasqueradeBackend> backend,
                       const std::optional<Masquerade>& to_masquerade) {
  require_removal_rights(request, to_masquerade.has_value());
  Namespaces sides(request);
  const Link inside = require_interface(
      sides, cat("the interface '", request.ifname, "' does not exist: restart the pod"));
  const auto outside = host_veth_of(sides, inside);
  if (outside && outside->alias.empty() && !repair.to_reference()) {
    repair.change(cat("link '", outside->name, "' has no alias that names its owner"), [&] {
      sides.host().send(netlink::set_link(*outside, {.alias = owner_of(request).text}));
    });
  }
  if (to_masquerade) migrate_masquerade(repair, backend, *to_masquerade);
}

void collect_veth_pairs(const cni::Request& request, cni::Collect& collect,
                        const std::function<void()>& remove_rules) {
  require_removal_rights(request, was_masqueraded(request.reader()));
  disconnect_and_collect(request, collect, [&](cni::BestEffort& each) {
    ask_host_veths(collect);
    const bool are_gone = each("remove host veths", [&] { collect_links("veth", collect); });
    if (remove_rules && !collect.only_looks()) each("remove the rules of ports", remove_rules);
    each("remove masquerading", [&] { gc_masquerade(request.network, collect); });
    return are_gone;
  });
}

}  // namespace plugins
