#include "plugins/ipvlan/conf.h"

#include <algorithm>
#include <iterator>

#include "plugins/common/link/ipam_keys.h"
#include "plugins/common/link/link_keys.h"
#include "plugins/common/link/master.h"
#include "plugins/ipvlan/facts.h"

namespace ipvlan {

namespace {

using cni::Reader;
using netlink::Ipvlan;

constexpr unsigned kScopeLink = 253;  // RT_SCOPE_LINK: without gateway

// The order is that of the kernel's numbers.
constexpr std::string_view kModes[] = {"l2", "l3", "l3s"};
constexpr std::string_view kFlags[] = {"bridge", "private", "vepa"};

void read_mode(const Reader& place, Conf& conf) {
  if (const auto mode = plugins::word_from(place, "unknown ipvlan mode", kModes))
    conf.data.mode = Ipvlan::Mode(*mode);
}

void read_flags(const Reader& place, Conf& conf) {
  const auto flags = plugins::word_from(place, "unknown ipvlan flags", kFlags);
  if (flags) conf.data.isolation = Ipvlan::Isolation(*flags);
}

constexpr auto kKeys = cni::keys(
    plugins::master_key<Conf>("the only interface of `prevResult`, else the link of the default "
                              "route"),
    plugins::link_in_container_key<Conf>(),
    cni::custom<read_mode>(
        {.name = "mode",
         .description = "`l2` switches frames between the pods and the master's segment. `l3` and "
                        "`l3s` route packets on the node, without broadcast and multicast; `l3s` "
                        "with the node's connection tracking. All interfaces of a master share it",
         .default_text = "`l2`",
         .type = cni::Type::kEnum,
         .enumeration = kModes,
         .or_empty = true}),
    cni::custom<read_flags>(
        {.name = "flags",
         .description = "whether interfaces of the master reach each other: directly in `bridge`, "
                        "not in `private`, by way of the switch in `vepa`. All interfaces of a "
                        "master share it",
         .default_text = "`bridge`",
         .type = cni::Type::kEnum,
         .enumeration = kFlags,
         .or_empty = true}),
    plugins::mtu_key<Conf>("MTU in bytes of the interface, at most that of the master; 0 is the "
                           "master's"),
    plugins::ipam_key<Conf>(), plugins::dns_key<Conf>(plugins::kDnsOfConfig),
    plugins::dns_from_ipam_key<Conf>(), plugins::ignore_default_route_key<Conf>());

}  // namespace

constinit const cni::Manual kManual{
    .purpose = "connects pods to the network of a link of the node, all with its MAC address",
    .keys = kKeys,
    .facts = kFacts};

std::string_view name_of(Ipvlan::Mode mode) {
  const auto number = static_cast<std::size_t>(mode);
  return number < std::size(kModes) ? kModes[number] : "unknown";
}

Conf Conf::parse(const cni::Request& request) {
  const Reader root = request.reader();
  Conf conf;
  cni::read_keys(root, kKeys, conf);
  plugins::refuse_without_ipam(root, conf, {"dnsFromIPAM"});
  return conf;
}

std::string master_of(const Conf& conf, const std::optional<cni::Result>& prev) {
  if (!conf.master.empty() || !prev) return conf.master;
  if (prev->interfaces.size() == 1 && !prev->interfaces[0].name.empty()) {
    return prev->interfaces[0].name;
  }
  throw cni::Error(cni::Code::kInvalidConfig,
                   "chained master failure. PrevResult lacks a single named interface",
                   "master: name the link, as prevResult does not say which one it is");
}

cni::Result routable(cni::Result result, Ipvlan::Mode mode) {
  if (mode == Ipvlan::Mode::kL2) return result;
  const auto is_on_link = [&result](const cni::Ip& gateway) {
    return std::ranges::any_of(
        result.ips, [&](const cni::Address& address) { return address.cidr.contains(gateway); });
  };
  for (cni::Address& address : result.ips) {
    if (address.gateway && !is_on_link(*address.gateway)) address.gateway.reset();
  }
  for (cni::Route& route : result.routes) {
    if (!route.gateway || is_on_link(*route.gateway)) continue;
    route.gateway.reset();
    route.scope = kScopeLink;
  }
  return result;
}

}  // namespace ipvlan
