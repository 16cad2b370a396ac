#include <algorithm>

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/privileges.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"
#include "netlink/netns.h"
#include "netlink/route/socket.h"
#include "netlink/sysctl.h"
#include "plugins/common/firewall/iptables_restore.h"
#include "plugins/common/firewall/xt_tables.h"
#include "plugins/portmap/conf.h"
#include "plugins/portmap/conflict.h"
#include "plugins/portmap/flush.h"
#include "plugins/portmap/iptables/chains.h"
#include "plugins/portmap/iptables/check.h"
#include "plugins/portmap/nftables/conditions.h"
#include "plugins/portmap/nftables/table.h"
#include "plugins/portmap/ports.h"
#include "plugins/portmap/services.h"

namespace portmap {

namespace {

using cni::cat;
using cni::Code;
using netlink::Capability;
using netlink::Link;
using netlink::RouteSocket;
using netlink::nf::NfSocket;

Owner owner_of(const cni::Request& request) {
  return {request.network, request.container_id, request.ifname};
}

// A pod with one hostIP per family starts in a network with one family (plugins#379 of the
// reference plugins): claims_of() passes over the others.
void note_skipped(const std::vector<Mapping>& mappings, const PodAddresses& pod) {
  for (std::size_t i = 0; i < mappings.size(); ++i) {
    const auto& host_ip = mappings[i].host_ip;
    if (!host_ip || pod.of(host_ip->family())) continue;
    cni::note(cat("skip runtimeConfig.portMappings[", i, "]: the pod has no IPv",
                  host_ip->is_v4() ? "4" : "6", " address for hostIP \"", host_ip->str(), "\""));
  }
}

Attachment wanted(const cni::Request& request, const Conf& conf, const cni::Result& result) {
  const PodAddresses pod = pod_addresses(result, request.ifname);
  return {.owner = owner_of(request),
          .netns = request.netns,
          .netns_inode = inode_of_netns(request.netns),
          .backend = conf.backend.value_or(BackendName::kNftables),
          .detected = !conf.backend,
          .options = conf.options,
          .pod = pod,
          .claims = claims_of(conf.mappings, pod)};
}

// Whether the node reaches one of the ports at 127.0.0.0/8.
bool uses_loopback(const Attachment& attachment) {
  return attachment.options.snat &&
         std::any_of(attachment.claims.begin(), attachment.claims.end(), [](const Claim& claim) {
           return claim.key.family == Family::kIpv4 &&
                  (!claim.key.address || claim.key.address->is_loopback());
         });
}

// The link that leads to the pod, if the node reaches a port at 127.0.0.0/8.
std::optional<Link> loopback_link(RouteSocket& host, const Attachment& attachment) {
  if (!uses_loopback(attachment)) return std::nullopt;
  const auto path = host.path_to(attachment.pod.v4.value().ip);
  return path ? host.find(path->link) : std::nullopt;
}

std::string route_localnet(const Link& device) {
  return cat("net/ipv4/conf/", device.name, "/route_localnet");
}

constexpr const char* kChained = "must be called as chained plugin";

const cni::Result& require(const std::optional<cni::Result>& result, const char* complaint) {
  if (result) return *result;
  throw cni::Error(Code::kInvalidConfig, complaint,
                   "no prevResult: portmap follows the plugin that assigns the pod's addresses");
}

// From the state file.
std::optional<Attachment> recorded(const Owner& owner) {
  const auto state = StateDir::find();
  return state ? state->find(owner) : std::nullopt;
}

// Called before any change, because Undo needs the capabilities too.
void require_prerequisites(const cni::Request& request, const Conf& conf) {
  cni::require_capabilities(request, {Capability::kNetAdmin});
  if (conf.backend == BackendName::kIptables &&
      plugins::needs_net_raw(plugins::find_restore(Family::kIpv4))) {
    cni::require_capabilities(request, {Capability::kNetRaw});
  }
  if (conf.backend == BackendName::kNftables && conf.options.has_conditions()) require_nft();
}

std::optional<plugins::XtablesVariant> variant_with(NfSocket* socket, const Owner& owner) {
  const auto variant = iptables::variant_with(socket, Family::kIpv4, owner);
  return variant ? variant : iptables::variant_with(socket, Family::kIpv6, owner);
}

// Without a state file the reference plugin added the rules, which prefers iptables, or the file
// was lost.
void check_unrecorded(NfSocket* socket, const Conf& conf, Attachment& attachment) {
  const bool is_iptables = conf.backend ? conf.backend == BackendName::kIptables
                                        : variant_with(socket, attachment.owner).has_value();
  if (is_iptables) {
    return iptables::refuse(iptables::missing_unrecorded(socket, attachment, conf.mappings));
  }
  attachment.backend = choose_backend(conf.backend, socket);
  functions_of(attachment.backend).check({socket, nullptr}, attachment);
}

void require_mapped(NfSocket* socket, const Conf& conf, Attachment attachment) {
  const auto state = StateDir::find();
  const auto known = state ? state->find(attachment.owner) : std::nullopt;
  if (known) {
    attachment.backend = known->backend;
    functions_of(known->backend).check({socket, &*state}, attachment);
  } else {
    check_unrecorded(socket, conf, attachment);
  }
  if (!precedes_services(attachment, conf.backend, socket)) return;
  throw cni::Error(Code::kInternal,
                   "check port mappings: kube-proxy is in IPVS mode, and hostPorts "
                   "of the backend nftables precede its Services");
}

// The sysctl, unless it was 1 when the link was read.
std::optional<std::string> disabled_route_localnet(const std::optional<Link>& link) {
  if (!link || link->route_localnet) return std::nullopt;
  return route_localnet(*link);
}

void require_route_localnet(const std::optional<Link>& link) {
  const auto closed = disabled_route_localnet(link);
  if (!closed || netlink::read_sysctl(*closed) == "1") return;
  throw cni::Error(Code::kInternal, cat("check port mappings: sysctl '", *closed,
                                        "' is not 1, so 127.0.0.1 does not lead to the pod"));
}

void enable_route_localnet(const std::optional<Link>& link) {
  const auto closed = disabled_route_localnet(link);
  if (closed) netlink::ensure_sysctl(*closed, "1");
}

void refuse_conflicts(const cni::Request& request, const Conf& conf, const Attachment& attachment) {
  refuse_denied(conf.denied, conf.mappings);
  if (conf.on_conflict == OnConflict::kRefuse) {
    refuse_listeners(attachment.claims, request.container_id);
  }
}

/// The sockets of a call in the node's namespace.
struct Sockets {
  RouteSocket& host;
  NfSocket* socket;
};

void map_again(const Sockets& sockets, const cni::Request& request, const Conf& conf,
               Attachment attachment) {
  refuse_conflicts(request, conf, attachment);
  std::optional<BackendName> backend = conf.backend;
  const auto known = recorded(attachment.owner);
  if (known) {
    if (!precedes_services(*known, backend, sockets.socket)) backend = known->backend;
  } else if (!backend && variant_with(sockets.socket, attachment.owner)) {
    backend = BackendName::kIptables;
  }
  attachment.backend = choose_backend(backend, sockets.socket);
  map_ports(sockets.socket, attachment, conf.on_conflict);
  if (sockets.socket != nullptr) flush_stale(*sockets.socket, sockets.host, attachment.claims);
}

// Maps runtimeConfig.portMappings. Without any it sends no netlink request, unless kube-ipvs0
// exists.
// \throws cni::Error: kPortInUse, kPortDenied; kInvalidConfig.
cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = Conf::parse(request);
  const auto previous = request.prev_result();
  const cni::Result& result = require(previous, kChained);
  Attachment attachment = wanted(request, conf, result);
  note_skipped(conf.mappings, attachment.pod);
  if (attachment.claims.empty()) {
    unmap_ports(attachment.owner, {});  // mappings of an earlier ADD
    yield_to_services(false);
    return result;
  }
  refuse_conflicts(request, conf, attachment);
  require_prerequisites(request, conf);
  RouteSocket host;
  const auto link = loopback_link(host, attachment);

  auto socket = NfSocket::find();
  NfSocket* const rules = socket ? &*socket : nullptr;
  undo.add(UnmapPorts{attachment.owner, conf.mappings});  // map_ports() can fail half-way
  attachment.backend = choose_backend(conf.backend, rules);
  map_ports(rules, attachment, conf.on_conflict);
  enable_route_localnet(link);
  if (socket) flush_stale(*socket, host, attachment.claims);
  yield_to_services(!conf.backend && attachment.backend == BackendName::kIptables);
  return result;
}

// Removes the mappings that the container's state file names, else those of the config, also if
// the reference plugin added them. Without either it sends no request to the kernel.
void del(const cni::Request& request) {
  unmap_ports(owner_of(request), readable_mappings(request));
}

// \throws cni::Error, which names the first difference from what ADD adds.
void check(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  const auto previous = request.prev_result();
  const cni::Result& result = require(previous, "Required prevResult missing");
  const Attachment attachment = wanted(request, conf, result);
  if (attachment.claims.empty()) return;
  cni::require_capabilities(request, {Capability::kNetAdmin});
  RouteSocket host;
  const auto link = loopback_link(host, attachment);
  auto socket = NfSocket::find();
  require_mapped(socket ? &*socket : nullptr, conf, attachment);
  require_route_localnet(link);
}

// Removes all mappings of this network whose attachment is not valid.
void gc(const cni::Request& request, cni::Collect& collect) {
  cni::require_capabilities(request, {Capability::kNetAdmin});
  plugins::require_readable_legacy("remove hostPorts");
  unmap_stale(request.network, collect);
}

// \throws cni::Error(kPluginUnavailable), which names what ADD needs and the node lacks.
void status(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  if (conf.mappings.empty()) return;  // ADD of a pod without hostPorts succeeds on any node
  require_prerequisites(request, conf);
  auto socket = NfSocket::find();
  NfSocket* const rules = socket ? &*socket : nullptr;
  choose_backend(conf.backend, rules);  // tests nftables unless it is configured
  const bool nftables = conf.backend == BackendName::kNftables;
  if (nftables && (rules == nullptr || !nft::usable(*rules))) {
    throw cni::Error(Code::kPluginUnavailable,
                     "the kernel has no NAT for nf_tables (modprobe nft_chain_nat)");
  }
}

void validate(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  require(request.prev_result(), kChained);
  refuse_denied(conf.denied, conf.mappings);
}

// Maps again what CHECK misses, in the backend that the attachment has, or in iptables if nftables
// precedes Services.
// \throws as add().
cni::Result repair(const cni::Request& request, cni::Repair& repair) {
  const Conf conf = Conf::parse(request);
  const auto previous = request.prev_result();
  const cni::Result& result = require(previous, "Required prevResult missing");
  const Attachment attachment = wanted(request, conf, result);
  if (attachment.claims.empty()) return result;
  require_prerequisites(request, conf);
  RouteSocket host;
  const auto link = loopback_link(host, attachment);
  auto socket = NfSocket::find();
  const Sockets sockets{host, socket ? &*socket : nullptr};
  repair.part([&] { require_mapped(sockets.socket, conf, attachment); },
              [&] { map_again(sockets, request, conf, attachment); });
  repair.part([&] { require_route_localnet(link); }, [&] { enable_route_localnet(link); });
  return result;
}

}  // namespace

extern constinit const cni::Plugin kPlugin{.name = "portmap",
                                           .add = add,
                                           .del = del,
                                           .check = check,
                                           .gc = gc,
                                           .status = status,
                                           .validate = validate,
                                           .manual = &kManual,
                                           .repair = repair};

}  // namespace portmap
