#include <algorithm>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"
#include "cnitool/probe/causes.h"
#include "libcni/common/error.h"

// Addresses that pods and the node lack, or have in each other's place.
namespace tool::probe {

namespace {

using cni::cat;
using netlink::Ip;
using netlink::Link;
using netlink::LinkRoute;

constexpr std::uint8_t kLocalType = 2;  // RTN_LOCAL

// By its prefix a pod asks hosts on its link, or its gateway.
std::optional<Cause> of_other_subnet(const Look& look, const Subject& pod, const Ip& ip) {
  const netlink::Cidr subnet = subnet_of(pod, ip.family());
  for (const netlink::LinkAddress& one : look.scene.at(&pod).addresses()) {
    if (one.cidr.ip != ip || one.cidr.prefix == subnet.prefix) continue;
    return Cause{cat(prefix_of(&pod), "'", printable(pod.key.ifname), "' has ", one.cidr.str(),
                     ", and its result says /", subnet.prefix),
                 "of the pod itself, or of a person", restart_of(pod)};
  }
  return std::nullopt;
}

// Of a link that the node reaches others by, it is the pod that has to have another one.
std::string separated(const Look& look, const netlink::LinkAddress& one, const Link& link) {
  const auto& uplink = look.scene.facts().uplink(one.cidr.ip.family());
  const bool is_needed = link.kind == "bridge" || (uplink && uplink->link == link.name);
  return is_needed
             ? cat("cnitool list --address ", one.cidr.ip.str(),
                   "  # its pod, which needs another address: exclude this one from its range")
             : cat("ip addr del ", one.cidr.str(), " dev ", doctor::quoted(link.name));
}

}  // namespace

std::optional<Cause> address_is_nodes(const Look& look) {
  netlink::RouteSocket& node = look.scene.at(nullptr);
  for (const Subject* const pod : {look.leg.from, look.leg.to}) {
    const auto ip = pod == nullptr ? std::nullopt : address_of(*pod, look.leg.target.family());
    if (!ip || ip->is_loopback() || !look.scene.facts().has(*ip)) continue;
    for (const netlink::LinkAddress& one : node.addresses()) {
      const auto link = one.cidr.ip == *ip ? node.find(one.link) : std::nullopt;
      if (!link) continue;
      return Cause{cat("the node has ", ip->str(), " on '", printable(link->name),
                       "', which is the address of the pod '", pod->name, "'"),
                   kSomebodys, separated(look, one, *link)};
    }
  }
  return std::nullopt;
}

std::optional<Cause> no_address_there(const Look& look) {
  const Leg& leg = look.leg;
  for (const Subject* const pod : {leg.to, leg.from}) {
    if (pod == nullptr) continue;
    const Ip ip = pod == leg.to ? leg.target : leg.source;
    const auto& routes = look.scene.routes(pod, ip.family());
    const bool has = std::ranges::any_of(
        routes, [&](const LinkRoute& one) { return one.type == kLocalType && one.dst.ip == ip; });
    const auto own = address_of(*pod, ip.family());
    if (!own || *own != ip) continue;
    if (has) {
      if (auto cause = of_other_subnet(look, *pod, ip)) return cause;
      continue;
    }
    return Cause{cat(prefix_of(pod), "'", printable(pod->key.ifname),
                     "' does not have its address ", ip.str()),
                 "", restart_of(*pod)};
  }
  return std::nullopt;
}

}  // namespace tool::probe
