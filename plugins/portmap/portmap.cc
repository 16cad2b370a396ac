#include "plugins/portmap/portmap.h"

#include <algorithm>

#include "libcni/plugin/privileges.h"
#include "netlink/netns.h"
#include "netlink/route/socket.h"
#include "netlink/sysctl.h"
#include "plugins/common/iptables_restore.h"
#include "plugins/common/xt_tables.h"
#include "plugins/portmap/conditions.h"
#include "plugins/portmap/conf.h"
#include "plugins/portmap/conflict.h"
#include "plugins/portmap/flush.h"
#include "plugins/portmap/garbage.h"
#include "plugins/portmap/iptables.h"
#include "plugins/portmap/nftables.h"
#include "plugins/portmap/setup.h"

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

// A mapping for one address of the node, to a pod that has no address of that family.
void refuse_unreachable(const std::vector<Mapping>& mappings, const PodAddresses& pod) {
  for (std::size_t i = 0; i < mappings.size(); ++i) {
    const auto& host_ip = mappings[i].host_ip;
    if (!host_ip || host_ip->is_unspecified() || pod.of(host_ip->family())) continue;
    throw cni::Error(Code::kInvalidConfig,
                     cat("runtimeConfig.portMappings[", i, "].hostIP: the pod has no IPv",
                         host_ip->is_v4() ? "4" : "6", " address: \"", host_ip->str(), "\""));
  }
}

Attachment wanted(const cni::Request& request, const Conf& conf, const cni::Result& result) {
  const PodAddresses pod = pod_addresses(result, request.ifname);
  if (pod.v4 || pod.v6) refuse_unreachable(conf.mappings, pod);
  return {.owner = owner_of(request),
          .netns = request.netns,
          .netns_inode = inode_of_netns(request.netns),
          .backend = conf.backend.value_or(Backend::kNftables),
          .options = conf.options,
          .pod = pod,
          .claims = claims_of(conf.mappings, pod),
          .by_link = false,
          .device_v4 = {},
          .device_v6 = {}};
}

// Whether the node reaches one of the ports at 127.0.0.0/8.
bool uses_loopback(const Attachment& attachment) {
  return attachment.options.snat &&
         std::any_of(attachment.claims.begin(), attachment.claims.end(), [](const Claim& claim) {
           return claim.key.family == Family::kIpv4 &&
                  (!claim.key.address || claim.key.address->is_loopback());
         });
}

// The link that leads to the pod, if the node is to reach it from 127.0.0.0/8.
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

std::optional<std::string> missing(NfSocket* socket, const Attachment& attachment) {
  if (attachment.backend == Backend::kIptables) {
    const auto records = Records::find();
    Container container;
    if (records) container = records->read(attachment.owner.container_hash()).attachments;
    return iptables::missing(socket, with_siblings(attachment, container), attachment.pod);
  }
  if (socket == nullptr) return "the kernel has no nf_tables";
  return nft::missing(*socket, attachment);
}

// Without a record it is the reference's, whose first choice is iptables, or lost its record.
std::optional<std::string> missing_unrecorded(NfSocket* socket, const Conf& conf,
                                              Attachment& attachment) {
  const bool is_iptables = conf.backend ? conf.backend == Backend::kIptables
                                        : iptables::has_chain(socket, attachment.owner);
  if (is_iptables) return iptables::missing_unrecorded(socket, attachment, conf.mappings);
  attachment.backend = choose_backend(conf.backend, socket);
  return missing(socket, attachment);
}

// Of how it was set up, as far as that is known.
std::optional<Attachment> recorded(const Owner& owner) {
  const auto records = Records::find();
  return records ? records->find(owner) : std::nullopt;
}

// Before anything is changed: undoing needs the capabilities too.
void require_means(const cni::Request& request, const Conf& conf) {
  cni::require_capabilities(request, {Capability::kNetAdmin});
  if (conf.backend == Backend::kIptables &&
      plugins::needs_net_raw(plugins::find_restore(Family::kIpv4))) {
    cni::require_capabilities(request, {Capability::kNetRaw});
  }
  if (conf.backend == Backend::kNftables && conf.options.has_conditions()) require_nft();
}

void require_mapped(NfSocket* socket, const Conf& conf, Attachment attachment) {
  const auto known = recorded(attachment.owner);
  if (known) attachment.backend = known->backend;
  const auto flaw =
      known ? missing(socket, attachment) : missing_unrecorded(socket, conf, attachment);
  if (flaw) throw cni::Error(Code::kInternal, cat("check port mappings: ", *flaw));
}

// The setting, where it may be missing: with the link came what it was then.
std::optional<std::string> closed_loopback(const std::optional<Link>& link) {
  if (!link || link->route_localnet) return std::nullopt;
  return route_localnet(*link);
}

void require_loopback(const std::optional<Link>& link) {
  const auto closed = closed_loopback(link);
  if (!closed || netlink::read_sysctl(*closed) == "1") return;
  throw cni::Error(Code::kInternal, cat("check port mappings: sysctl '", *closed,
                                        "' is not 1, so 127.0.0.1 does not lead to the pod"));
}

void open_loopback(const std::optional<Link>& link) {
  const auto closed = closed_loopback(link);
  if (closed) netlink::ensure_sysctl(*closed, "1");
}

void refuse_others(const cni::Request& request, const Conf& conf, const Attachment& attachment) {
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
  refuse_others(request, conf, attachment);
  std::optional<Backend> backend = conf.backend;
  const auto known = recorded(attachment.owner);
  if (known) {
    backend = known->backend;
  } else if (!backend && iptables::has_chain(sockets.socket, attachment.owner)) {
    backend = Backend::kIptables;
  }
  const auto taken = set_up(sockets.socket, attachment, backend, conf.on_conflict);
  if (sockets.socket == nullptr) return;
  forget_redirected(*sockets.socket, taken);
  forget_before(*sockets.socket, sockets.host, attachment.claims);
}

}  // namespace

cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = Conf::parse(request);
  const auto previous = request.prev_result();
  const cni::Result& result = require(previous, kChained);
  Attachment attachment = wanted(request, conf, result);
  if (attachment.claims.empty()) {
    take_down(attachment.owner, {});  // what an earlier ADD may have mapped
    return result;
  }
  refuse_others(request, conf, attachment);
  require_means(request, conf);
  RouteSocket host;
  const auto link = loopback_link(host, attachment);

  auto socket = NfSocket::find();
  undo.add(TakeDown{attachment.owner, conf.mappings});  // already half of it is to be taken back
  const auto taken =
      set_up(socket ? &*socket : nullptr, attachment, conf.backend, conf.on_conflict);
  open_loopback(link);
  if (socket) {
    forget_redirected(*socket, taken);
    forget_before(*socket, host, attachment.claims);
  }
  return result;
}

void del(const cni::Request& request) { take_down(owner_of(request), readable_mappings(request)); }

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
  require_loopback(link);
}

void gc(const cni::Request& request) {
  const auto valid = request.valid_attachments();
  if (!valid) return;
  cni::require_capabilities(request, {Capability::kNetAdmin});
  plugins::require_readable_legacy("remove hostPorts");
  collect_garbage(request.network, *valid);
}

void status(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  if (conf.mappings.empty()) return;  // a pod without hostPorts can be added on any node
  require_means(request, conf);
  auto socket = NfSocket::find();
  NfSocket* const rules = socket ? &*socket : nullptr;
  choose_backend(conf.backend, rules);  // tries nftables unless it is configured
  const bool nftables = conf.backend == Backend::kNftables;
  if (nftables && (rules == nullptr || !nft::usable(*rules))) {
    throw cni::Error(Code::kPluginUnavailable, "the kernel has no NAT for nf_tables");
  }
}

void validate(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  require(request.prev_result(), kChained);
  refuse_denied(conf.denied, conf.mappings);
}

cni::Result repair(const cni::Request& request, cni::Repair& repair) {
  const Conf conf = Conf::parse(request);
  const auto previous = request.prev_result();
  const cni::Result& result = require(previous, "Required prevResult missing");
  const Attachment attachment = wanted(request, conf, result);
  if (attachment.claims.empty()) return result;
  require_means(request, conf);
  RouteSocket host;
  const auto link = loopback_link(host, attachment);
  auto socket = NfSocket::find();
  const Sockets sockets{host, socket ? &*socket : nullptr};
  repair.part([&] { require_mapped(sockets.socket, conf, attachment); },
              [&] { map_again(sockets, request, conf, attachment); });
  repair.part([&] { require_loopback(link); }, [&] { open_loopback(link); });
  return result;
}

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
