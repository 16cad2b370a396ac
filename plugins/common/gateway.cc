#include "plugins/common/gateway.h"

#include <linux/rtnetlink.h>

#include <algorithm>
#include <cerrno>

#include "libcni/error.h"
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

}  // namespace

void enable_forwarding(netlink::RouteSocket& host, netlink::Family family) {
  const bool v4 = family == netlink::Family::kIpv4;
  if (host.forwards(family) == true) return;
  if (!v4) keep_learned_uplinks(host);
  netlink::write_sysctl(v4 ? "net/ipv4/ip_forward" : "net/ipv6/conf/all/forwarding", "1");
}

bool ensure_gateway_address(netlink::RouteSocket& host, const netlink::Link& device,
                            const cni::Cidr& gateway, bool force) {
  const auto present = host.addresses(device, gateway.ip.family());
  if (std::any_of(present.begin(), present.end(),
                  [&](const auto& one) { return one.cidr == gateway; })) {
    return false;
  }
  std::vector<netlink::Request> requests;
  for (const auto& one : present) {
    if (one.cidr.ip.is_link_local() && !one.cidr.ip.is_v4()) continue;
    if (!conflicts(one.cidr, gateway)) continue;
    if (!force) {
      throw cni::Error(
          cni::Code::kInvalidConfig,
          cat("failed to set bridge addr: \"", device.name, "\" already has an IP address ",
              one.cidr.str(), " different from ", gateway.str()),
          "another network or a person gave it that address; use another bridge, the same subnet, "
          "or \"forceAddress\": true to replace it");
    }
    requests.push_back(netlink::remove(device, one.cidr));
  }
  auto request = netlink::add(device, netlink::NewAddress{.cidr = gateway, .no_dad = true});
  request.tolerated = {EEXIST};  // another ADD was quicker
  requests.push_back(std::move(request));
  host.send(requests);
  return true;
}

}  // namespace plugins
