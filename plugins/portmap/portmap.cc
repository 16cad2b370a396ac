#include <algorithm>
#include <initializer_list>
#include <utility>

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/privileges.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"
#include "netlink/netns.h"
#include "netlink/nf/socket.h"
#include "netlink/route/socket.h"
#include "netlink/sysctl.h"
#include "plugins/common/firewall/iptables_restore.h"
#include "plugins/common/firewall/xt_tables.h"
#include "plugins/portmap/conf.h"
#include "plugins/portmap/conflict.h"
#include "plugins/portmap/flush.h"
#include "plugins/portmap/migrate.h"
#include "plugins/portmap/nftables/table.h"
#include "plugins/portmap/ports.h"
#include "plugins/portmap/predecessors.h"
#include "plugins/portmap/services.h"

namespace portmap {

namespace {

using cni::cat;
using cni::Code;
using netlink::Capability;
using netlink::RouteSocket;
using netlink::nf::NfSocket;

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

/// Input of ADD, CHECK and REPAIR, read before any change.
struct Input {
  Conf conf;
  cni::Result result;
  Attachment attachment;
};

// \throws cni::Error(kInvalidConfig) with `complaint` if there is no prevResult.
Input read_input(const cni::Request& request, const char* complaint) {
  Conf conf = Conf::parse(request);
  auto result = request.prev_result();
  if (!result) {
    throw cni::Error(Code::kInvalidConfig, complaint,
                     "no prevResult: portmap follows the plugin that assigns the pod's addresses");
  }
  const PodAddresses pod = pod_addresses(*result, request.ifname);
  auto claims = claims_of(conf.mappings, pod);
  const auto netns = netlink::NetNs::find(request.netns);
  Attachment attachment{.owner = request.key(),
                        .netns = request.netns,
                        .netns_inode = netns ? netns->id().str() : "",
                        .backend = conf.backend.value_or(BackendName::kNftables),
                        .detected = !conf.backend,
                        .options = conf.options,
                        .pod = pod,
                        .claims = std::move(claims)};
  return {std::move(conf), *std::move(result), std::move(attachment)};
}

constexpr const char* kChained = "must be called as chained plugin";
constexpr const char* kNoResult = "Required prevResult missing";

// Whether the node reaches one of the ports at 127.0.0.0/8.
bool uses_loopback(const Attachment& attachment) {
  return attachment.options.snat && std::ranges::any_of(attachment.claims, [](const Claim& claim) {
           return claim.key.family == Family::kIpv4 &&
                  (!claim.key.address || claim.key.address->is_loopback());
         });
}

/// The sockets of a call in the node's namespace, and what it reads there first.
struct NodeSockets {
  explicit NodeSockets(const Attachment& attachment) {
    if (!uses_loopback(attachment)) return;
    const cni::Ip& pod = attachment.pod.v4.value().ip;
    const auto path = host.path_to(pod);
    const auto link = path ? host.find(path->link) : std::nullopt;
    if (!link || link->route_localnet) return;
    sysctl = cat("net/ipv4/conf/", link->name, "/route_localnet");
    const auto route = host.match(pod);
    if (route && (route->local || route->route.dst.is_default() || route->route.gateway)) {
      const cni::Cidr& destination = route->route.dst;
      const auto& gateway = route->route.gateway;
      lost = cni::Error(cni::Code::kInternal,
                        cat("check port mappings: the node has no route of its own to ", pod.str()),
                        route->local ? "the node itself has the address"
                        : destination.is_default()
                            ? cat("the default route leads to '", link->name, "'")
                            : cat("the route to ", destination.str(), " leads to ", gateway->str(),
                                  " on '", link->name, "'"));
    }
  }
  NfSocket* socket() { return nf ? &*nf : nullptr; }

  RouteSocket host;
  std::optional<std::string> sysctl;  ///< has to be 1 for 127.0.0.1, and was not
  /// The link of the sysctl is not that of the pod, whose route another program removed.
  std::optional<cni::Error> lost = {};
  std::optional<NfSocket> nf = NfSocket::find();
};

void require_route_localnet(const NodeSockets& node) {
  if (!node.sysctl || netlink::read_sysctl(*node.sysctl) == "1") return;
  if (node.lost) throw *node.lost;
  throw cni::Error(Code::kInternal, cat("check port mappings: sysctl '", *node.sysctl,
                                        "' is not 1, so 127.0.0.1 does not lead to the pod"));
}

void enable_route_localnet(const NodeSockets& node) {
  if (node.sysctl) netlink::ensure_sysctl(*node.sysctl, "1");
}

// An uplink would accept packets of 127.0.0.0/8, and the pod would gain nothing.
void restore_route_localnet(const NodeSockets& node) {
  if (node.lost) throw *node.lost;
  enable_route_localnet(node);
}

// Called before any change, because Undo needs the capabilities too.
void require_prerequisites(const cni::Request& request, const Conf& conf) {
  static constexpr std::initializer_list<Capability> kAdmin{Capability::kNetAdmin};
  static constexpr std::initializer_list<Capability> kAdminAndRaw{Capability::kNetAdmin,
                                                                  Capability::kNetRaw};
  const bool needs_raw = conf.backend == BackendName::kIptables &&
                         plugins::needs_net_raw(plugins::find_restore(Family::kIpv4));
  cni::require_capabilities(request, needs_raw ? kAdminAndRaw : kAdmin);
  if (conf.backend == BackendName::kNftables && conf.options.has_conditions()) nft::require_nft();
}

BackendName map_in(NodeSockets& node, const Input& input, std::optional<BackendName> backend) {
  Attachment wanted = input.attachment;
  wanted.backend = choose_backend(backend, node.socket());
  map_ports(node.socket(), wanted, input.conf.on_conflict);
  if (node.nf) flush_stale(*node.nf, node.host, wanted.claims);
  return wanted.backend;
}

// Maps runtimeConfig.portMappings. Without any it sends no netlink request, unless kube-ipvs0
// exists.
// \throws cni::Error: kPortInUse, kPortDenied; kInvalidConfig.
cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Input input = read_input(request, kChained);
  const Conf& conf = input.conf;
  const Attachment& attachment = input.attachment;
  note_skipped(conf.mappings, attachment.pod);
  if (attachment.claims.empty()) {
    unmap_ports(attachment.owner, {});  // mappings of an earlier ADD
    unmap_predecessors(attachment);
    yield_to_services(false);
    return input.result;
  }
  refuse_conflicts(conf, attachment.claims, request.container_id);
  require_prerequisites(request, conf);
  undo.add(UnmapPorts{attachment.owner, conf.mappings});  // map_ports() can fail half-way
  NodeSockets node(attachment);
  const BackendName backend = map_in(node, input, conf.backend);
  enable_route_localnet(node);
  yield_to_services(!conf.backend && backend == BackendName::kIptables);
  return input.result;
}

// Removes the mappings that the container's state file names, else those of the config, also if
// the reference plugin added them. Without either it sends no request to the kernel.
void del(const cni::Request& request) { unmap_ports(request.key(), readable_mappings(request)); }

// \throws cni::Error, which names the first difference from what ADD adds.
void check(const cni::Request& request) {
  const Input input = read_input(request, kNoResult);
  if (input.attachment.claims.empty()) return;
  cni::require_capabilities(request, {Capability::kNetAdmin});
  NodeSockets node(input.attachment);
  check_ports(node.socket(), input.conf, input.attachment);
  require_route_localnet(node);
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
    throw cni::Error(Code::kPluginUnavailable, netlink::nf::kNoNat);
  }
}

void validate(const cni::Request& request) {
  const Input input = read_input(request, kChained);
  refuse_denied(input.conf.denied, input.conf.mappings);
}

// Maps again what CHECK misses, in the backend that the attachment has, or in iptables if nftables
// precedes Services.
// \throws as add().
cni::Result repair(const cni::Request& request, cni::Repair& repair) {
  const Input input = read_input(request, kNoResult);
  if (input.attachment.claims.empty()) return input.result;
  require_prerequisites(request, input.conf);
  NodeSockets node(input.attachment);
  repair.part(
      [&] {
        check_ports(node.socket(), input.conf, input.attachment);
        require_state_file(node.socket(), input.attachment);
      },
      [&] {
        refuse_conflicts(input.conf, input.attachment.claims, request.container_id);
        map_in(node, input, backend_to_repair(node.socket(), input.conf, input.attachment.owner));
      });
  repair.part([&] { require_route_localnet(node); }, [&] { restore_route_localnet(node); });
  return input.result;
}

void migrate(const cni::Request& request, cni::Repair& repair) {
  const Input input = read_input(request, kNoResult);
  if (input.attachment.claims.empty()) return;
  require_prerequisites(request, input.conf);
  NodeSockets node(input.attachment);
  const bool back = repair.to_reference();
  repair.change(form_difference(node.socket(), input.conf, input.attachment, back),
                [&] { put_form(node.socket(), input.conf, input.attachment, back); });
}

}  // namespace

extern constinit const cni::Plugin kPlugin{
    .name = "portmap",
    .verbs = {add, del, check, gc, status, validate, repair, nullptr, migrate},
    .manual = &kManual,
    .loading = ""};

}  // namespace portmap
