#include "plugins/common/link/gateway.h"

#include <linux/rtnetlink.h>

#include <algorithm>
#include <cerrno>

#include "libcni/common/error.h"
#include "netlink/sysctl.h"

namespace plugins {

namespace {

using cni::cat;

void keep_learned_uplinks(netlink::RouteSocket& host) {
  for (const auto& route : host.routes(netlink::Family::kIpv6)) {
    if (!route.dst.is_default() || route.protocol != RTPROT_RA) continue;
    const auto uplink = host.find(route.link);
    if (!uplink) continue;
    const std::string key = cat("net/ipv6/conf/", uplink->name, "/accept_ra");
    if (netlink::read_sysctl(key) == "1") netlink::try_sysctl(key, "2");
  }
}

bool conflicts(const cni::Cidr& present, const cni::Cidr& wanted) {
  return wanted.ip.is_v4() || present.contains(wanted.ip) || wanted.contains(present.ip);
}

std::vector<cni::Cidr> without(std::vector<cni::Cidr> all, const std::vector<cni::Cidr>& those) {
  std::erase_if(all,
                [&](const cni::Cidr& one) { return std::ranges::find(those, one) != those.end(); });
  return all;
}

// The one of the missing gateways that another address conflicts with.
const cni::Cidr* in_the_way_of(const std::vector<cni::Cidr>& missing, const cni::Cidr& other) {
  if (other.ip.is_link_local() && !other.ip.is_v4()) return nullptr;
  const auto it =
      std::ranges::find_if(missing, [&](const cni::Cidr& one) { return conflicts(other, one); });
  return it == missing.end() ? nullptr : &*it;
}

const char* forwarding_key(netlink::Family family) {
  return family == netlink::Family::kIpv4 ? "net/ipv4/ip_forward" : "net/ipv6/conf/all/forwarding";
}

cni::Error conflict(const std::string& device, const cni::Cidr& present, const cni::Cidr& gateway) {
  return {cni::Code::kInvalidConfig,
          cat("failed to set bridge addr: \"", device,
              "\" already has an IP address different from ", gateway.str()),
          cat("another network or a person gave it ", present.str(),
              "; use another bridge, the same subnet, or \"forceAddress\": true to replace it")};
}

}  // namespace

void enable_forwarding(netlink::RouteSocket& host, netlink::Family family) {
  const bool v4 = family == netlink::Family::kIpv4;
  if (host.forwards(family) == true) return;
  if (!v4) keep_learned_uplinks(host);
  netlink::write_sysctl(forwarding_key(family), "1");
}

void check_forwarding(netlink::RouteSocket& host, netlink::Family family) {
  if (host.forwards(family) != false) return;
  throw cni::Error(cni::Code::kInternal,
                   cat("forwarding is off: ", forwarding_key(family), " is 0"));
}

void check_gateway_addresses(netlink::RouteSocket& host, const netlink::Link& device,
                             const std::vector<cni::Cidr>& gateways) {
  const auto present = host.addresses(device);
  for (const cni::Cidr& gateway : gateways) {
    if (std::ranges::find(present, gateway, &netlink::LinkAddress::cidr) != present.end()) continue;
    throw cni::Error(cni::Code::kInternal,
                     cat("gateway address ", gateway.str(), " is not on '", device.name, "'"));
  }
}

void ensure_gateway_addresses(netlink::RouteSocket& host, const netlink::Link& device,
                              const std::vector<cni::Cidr>& gateways, OtherAddresses others) {
  if (gateways.empty()) return;
  std::vector<cni::Cidr> present;
  for (const auto& one : host.addresses(device, gateways.front().ip.family())) {
    present.push_back(one.cidr);
  }
  const std::vector<cni::Cidr> missing = without(gateways, present);
  std::vector<netlink::RouteRequest> requests;
  for (const cni::Cidr& other : without(present, gateways)) {  // the gateways are no conflict
    const cni::Cidr* const gateway = in_the_way_of(missing, other);
    if (gateway == nullptr || others == OtherAddresses::kKeep) continue;
    if (others == OtherAddresses::kRefuse) throw conflict(device.name, other, *gateway);
    requests.push_back(netlink::remove(device, other));
  }
  for (const cni::Cidr& gateway : missing) {
    auto request = netlink::add(device, netlink::NewAddress{.cidr = gateway, .no_dad = true});
    request.tolerated = {EEXIST};  // another ADD was quicker
    requests.push_back(std::move(request));
  }
  host.send(requests);
}

}  // namespace plugins
