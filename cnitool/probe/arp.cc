#include "cnitool/probe/arp.h"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "cnitool/output.h"
#include "netlink/address_claim.h"
#include "netlink/netns.h"
#include "netlink/route/socket.h"
#include "netlink/sysctl.h"
#include "netlink/types/error.h"

namespace tool::probe {

namespace {

using netlink::NetNs;
using netlink::SegmentSocket;

constexpr auto kAnswerTime = std::chrono::milliseconds(300);
constexpr std::size_t kMaxSilent = 10;  // each is waited for
// Each asks all pods of its bridge, and its socket takes an RCU grace period to be closed.
constexpr std::size_t kMostOfNetwork = 32;

// Whether anybody answers; a pod that has ended in between has nobody to ask.
bool answers(const Subject& one, const Ip& gateway, Pacer& pacer) {
  const auto ns = NetNs::find(one.netns);
  const auto link = ns ? netlink::RouteSocket(*ns).find(one.key.ifname) : std::nullopt;
  if (!link || link->mac.is_zero() || !link->up) return true;
  try {
    SegmentSocket socket(*ns, link->index, SegmentSocket::Protocol::kArp);
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (!pacer.wait()) return true;
      socket.send(netlink::arp_probe(link->mac, gateway));
      const auto end = SegmentSocket::Clock::now() + kAnswerTime;
      const auto is_gateway = [&](const netlink::NeighbourClaim& claim) {
        return claim.address == gateway && claim.owner != link->mac;
      };
      if (socket.claim_until(end, is_gateway)) return true;
    }
  } catch (const netlink::Error&) {
    return true;
  }
  return !netlink::RouteSocket(*ns).find(one.key.ifname).has_value();
}

// The link by which the node hears the pod.
std::string link_to(const Subject& one, netlink::RouteSocket& node) {
  for (const cni::Address& address : one.result.ips) {
    const auto path = address.cidr.ip.is_v4() ? node.path_to(address.cidr.ip) : std::nullopt;
    const auto link = path && !path->local ? node.find(path->link) : std::nullopt;
    if (link) return link->name;
  }
  return {};
}

doctor::Finding finding_of(const std::string& link, const Ip& gateway) {
  doctor::Finding out{.level = doctor::Level::kError, .what = {}, .why = {}, .remedy = {}};
  std::string reason;
  for (const std::string& name : {std::string("all"), link}) {
    const std::string key = cat("net/ipv4/conf/", name, "/arp_ignore");
    const std::string value = netlink::read_sysctl(key).value_or("0");
    if (value == "0") continue;
    reason += cat(reason.empty() ? ": " : ", ", printable(key), " is ", printable(value));
    out.remedy += cat(out.remedy.empty() ? "" : "; ", "sysctl -w ", doctor::quoted(key), "=0");
  }
  out.what = cat("the node does not answer ARP for its address ", gateway.str(), " at '",
                 printable(link), "'", reason);
  out.why = "pods are cut as soon as they have forgotten its MAC address";
  if (out.remedy.empty()) out.remedy = "nft list ruleset arp; arptables-legacy -vnL";
  return out;
}

}  // namespace

doctor::Findings silent_gateways(const std::vector<Subject>& subjects,
                                 const std::vector<bool>& asked, const NodeFacts& node,
                                 Pacer& pacer) {
  netlink::RouteSocket socket;
  std::map<std::pair<std::string, Ip>, doctor::Finding> found;
  std::map<std::string, std::size_t> members;
  std::size_t silent = 0;
  for (std::size_t i = 0; i < subjects.size() && silent < kMaxSilent; ++i) {
    const Subject& one = subjects[i];
    if (!asked[i] || !one.is_routed || ++members[one.key.network] > kMostOfNetwork) continue;
    for (const cni::Address& address : one.result.ips) {
      const auto& gateway = address.gateway;
      if (!gateway || !gateway->is_v4() || !node.has(*gateway) || answers(one, *gateway, pacer))
        continue;
      ++silent;
      const std::string link = link_to(one, socket);
      const auto [at, is_new] = found.try_emplace({link, *gateway}, doctor::Finding{});
      if (is_new) at->second = finding_of(link, *gateway);
      at->second.lines.push_back(cat(one.name, " to its gateway ", gateway->str()));
      at->second.networks = {one.key.network};
    }
  }
  doctor::Findings out;
  for (auto& [place, finding] : found) out.push_back(std::move(finding));
  return out;
}

}  // namespace tool::probe
