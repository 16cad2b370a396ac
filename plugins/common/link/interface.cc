#include "plugins/common/link/interface.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "netlink/route/neighbour.h"
#include "netlink/sysctl.h"
#include "plugins/common/link/addresses.h"
#include "plugins/common/link/duplicates.h"

namespace plugins {

namespace {

using cni::cat;
using cni::Code;
using cni::Result;

constexpr std::chrono::seconds kDadLimit{5};
constexpr unsigned kScopeSite = 200;  // RT_SCOPE_SITE: narrower scopes (link, host) have no gateway

bool is_v6(const cni::Address& address) { return !address.cidr.ip.is_v4(); }

std::vector<cni::Address> addresses_for(const PodInterface& interface, const Result& result) {
  if (result.interfaces.empty()) throw cni::Error(Code::kInternal, "no interfaces to configure");
  std::vector<cni::Address> out;
  for (const cni::Address& address : result.ips) {
    if (!address.interface) continue;
    if (*address.interface >= result.interfaces.size() ||
        result.interfaces[*address.interface].name != interface.link.name) {
      throw cni::Error(Code::kInternal, cat("failed to add IP addr ", address.cidr.str(), " to '",
                                            interface.link.name, "': invalid interface index"));
    }
    out.push_back(address);
  }
  return out;
}

std::string setting(const std::string& link, const char* name) {
  return cat("net/ipv6/conf/", link, "/", name);
}

// Why a link has no settings of IPv6 (ipv6_find_idev() in net/ipv6/addrconf.c).
std::string why_no_ipv6(const netlink::Link& link) {
  constexpr unsigned kMinMtu = 1280;  // RFC 8200, section 5
  if (link.mtu >= kMinMtu) return "this kernel has IPv6 switched off";
  return cat("its MTU is ", link.mtu, ", IPv6 needs ", kMinMtu);
}

void enable_ipv6(const PodInterface& interface) {
  for (const netlink::Link& link : {interface.sides.pod.get("lo"), interface.link}) {
    if (!link.ipv6) {
      throw cni::Error(Code::kInternal, cat("enable IPv6 on '", link.name, "': ", why_no_ipv6(link),
                                            ", but the IPAM plugin gave the pod an IPv6 address"));
    }
    if (link.ipv6->disable_ipv6 != 0)
      netlink::write_sysctl(setting(link.name, "disable_ipv6"), "0");
  }
  const netlink::Link& link = interface.link;
  if (link.ipv6->keep_addr_on_down != 1) {
    netlink::try_write_sysctl(setting(link.name, "keep_addr_on_down"), "1");
  }
  // As arp_notify does for IPv4: whoever knew the address under another MAC address learns.
  if (link.ipv6->ndisc_notify != 1) {
    netlink::try_write_sysctl(setting(link.name, "ndisc_notify"), "1");
  }
}

void set_sysctls(const PodInterface& interface, bool v6, const AddressOptions& options) {
  const netlink::NetNs::Entered entered(interface.sides.pod_ns);
  const netlink::Link& link = interface.link;
  const int detection = options.enable_dad ? 1 : 0;
  if (!options.accept_ra && link.ipv6 && link.ipv6->accept_ra != 0) {
    netlink::try_write_sysctl(setting(link.name, "accept_ra"), "0");
  }
  if (options.ignore_default_route && link.ipv6) {
    netlink::try_sysctl(setting(link.name, "accept_ra_defrtr"), "0");
  }
  if (options.enable_dad) netlink::try_sysctl(setting(link.name, "enhanced_dad"), "1");
  if (link.ipv6 && link.ipv6->accept_dad != detection) {
    netlink::try_write_sysctl(setting(link.name, "accept_dad"), detection == 1 ? "1" : "0");
  }
  if (v6) enable_ipv6(interface);
}

std::optional<cni::Ip> first_gateway(const std::vector<cni::Address>& addresses, bool v4) {
  for (const cni::Address& address : addresses) {
    if (address.gateway && address.gateway->is_v4() == v4) return address.gateway;
  }
  return std::nullopt;
}

constexpr std::uint32_t kMain = 254;

// Tables to which a later plugin of the chain may have moved routes of the main table: those that
// a rule selects by an address of the interface (sbr), or that of its VRF (vrf).
std::vector<std::uint32_t> tables_of(const PodInterface& interface, netlink::Family family,
                                     const std::vector<cni::Address>& addresses) {
  netlink::RouteSocket& pod = interface.sides.pod;
  std::vector<std::uint32_t> out;
  const auto master = interface.link.master == 0 ? std::nullopt : pod.find(interface.link.master);
  const auto* const vrf = master ? std::get_if<netlink::Vrf>(&master->data) : nullptr;
  if (vrf != nullptr) out.push_back(vrf->table);
  for (const netlink::PolicyRule& rule : pod.policy_rules(family)) {
    const bool leads = rule.from && std::ranges::any_of(addresses, [&](auto& one) {
                         return rule.from->contains(one.cidr.ip);
                       });
    if (leads) out.push_back(rule.table);
  }
  return out;
}

std::string scope_text(unsigned scope) {  // as Go prints it
  constexpr std::pair<unsigned, const char*> kScopes[] = {
      {0, "universe"}, {kScopeSite, "site"}, {253, "link"}, {254, "host"}, {255, "nowhere"}};
  for (const auto& [number, name] : kScopes) {
    if (number == scope) return name;
  }
  return "unknown";
}

const cni::Interface* find_entry(const Result& result, const std::string& name,
                                 const std::string& sandbox) {
  const auto it = std::ranges::find_if(result.interfaces, [&](const cni::Interface& one) {
    return one.name == name && one.sandbox == sandbox;
  });
  return it == result.interfaces.end() ? nullptr : &*it;
}

bool same_route(const netlink::LinkRoute& seen, const netlink::LinkRoute& wanted) {
  return seen.dst == wanted.dst.network() && seen.table == wanted.table &&
         (!wanted.gateway || seen.gateway == wanted.gateway);
}

}  // namespace

std::vector<cni::Address> addresses_of(const Result& result, const std::string& ifname) {
  std::vector<cni::Address> out;
  for (const cni::Address& one : result.ips) {
    const bool is_named = one.interface && *one.interface < result.interfaces.size();
    if (is_named && result.interfaces[*one.interface].name != ifname) continue;
    out.push_back(one);
  }
  return out;
}

netlink::LinkRoute link_route(const cni::Route& route, const std::vector<cni::Address>& addresses) {
  netlink::LinkRoute out{.dst = route.dst, .gateway = route.gateway};
  if (!out.gateway && route.scope.value_or(0) <= kScopeSite) {
    out.gateway = first_gateway(addresses, route.dst.ip.is_v4());
  }
  // A gateway of zeros means on-link (RFC 3442): dhcp returns it as the reference plugins do.
  if (out.gateway && out.gateway->is_unspecified()) out.gateway.reset();
  // 0 is "unspecified", which the kernel takes for main.
  if (route.table && *route.table != 0) out.table = *route.table;
  out.scope = static_cast<std::uint8_t>(route.scope.value_or(0));
  out.priority = route.priority;
  out.mtu = route.mtu;
  out.advmss = route.advmss;
  return out;
}

void wait_for_dad(const PodInterface& interface, Neighbours* neighbours) {
  std::optional<netlink::Cidr> failed;
  const auto settled = [&] {
    bool tentative = false;
    for (const auto& a : interface.sides.pod.addresses(interface.link, netlink::Family::kIpv6)) {
      if (a.cidr.ip.is_link_local()) continue;
      if (a.dad_failed) failed = a.cidr;
      tentative = tentative || a.tentative;
    }
    return !tentative || failed;
  };
  const bool done = interface.sides.pod.wait_until(settled, kDadLimit);
  if (failed) {
    const auto owner = neighbours ? neighbours->owner_of(failed->ip) : std::nullopt;
    throw cni::Error(Code::kInternal,
                     cat("link '", interface.link.name, "' has address ", failed->str(),
                         " in DADFAILED state: another node on the "
                         "link uses it",
                         owner ? cat(", ", owner->str()) : ""));
  }
  if (!done) {
    throw cni::Error(Code::kTryAgainLater,
                     cat("link '", interface.link.name, "' still has tentative addresses after ",
                         kDadLimit.count(), " seconds"));
  }
}

// Both requests fail with the reference plugins' messages.
static netlink::RouteRequest adding(const netlink::Link& link, const cni::Address& address,
                                    const AddressOptions& options) {
  auto out =
      netlink::add(link, netlink::NewAddress{.cidr = address.cidr,
                                             .no_dad = !options.enable_dad,
                                             .no_prefix_route = options.subnet_routes.has_value()});
  out.operation = cat("failed to add IP addr ", address.cidr.str(), " to \"", link.name, "\"");
  return out;
}

static netlink::RouteRequest adding(const netlink::Link& link, const cni::Route& route,
                                    const std::vector<cni::Address>& addresses,
                                    const AddressOptions& options) {
  netlink::LinkRoute wanted = link_route(route, addresses);
  wanted.on_link = wanted.gateway && !options.subnet_routes &&
                   reach_of(*wanted.gateway, addresses) == Reach::kOnLink;
  auto out = netlink::add(link, wanted);
  out.operation =
      cat("failed to add route '{", route.dst.ip.str(), " ", cni::go_mask(route.dst), "} via ",
          wanted.gateway ? wanted.gateway->str() : "<nil>", " dev ", link.name, " metric ",
          route.priority, " (Scope: ", scope_text(route.scope.value_or(0)),
          ", Table: ", route.table.value_or(0), ")'");
  return out;
}

// The kernel says only that it does not reach the gateway of a route.
[[noreturn]] static void explain(const netlink::Error& e, const Result& result,
                                 const std::vector<cni::Address>& addresses) {
  if (e.error() != ENETUNREACH && e.error() != EHOSTUNREACH) throw e;
  for (const cni::Route& route : result.routes) {
    const auto gateway = link_route(route, addresses).gateway;
    if (!gateway || reach_of(*gateway, addresses) != Reach::kNowhere) continue;
    throw cni::error_of(e, cat("gateway ", gateway->str(),
                               " is in no subnet of the interface; if it is on the link, name it "
                               "as the gateway of an address, too"));
  }
  throw e;
}

void configure_interface(const PodInterface& interface, const Result& result,
                         const AddressOptions& options) {
  const cni::Phase phase("addresses");
  const auto addresses = addresses_for(interface, result);
  const bool v6 = std::ranges::any_of(addresses, is_v6);
  set_sysctls(interface, v6, options);
  if (options.probe) refuse_duplicates(interface, addresses);
  std::optional<Neighbours> neighbours;
  if (v6 && options.probe) neighbours.emplace(interface);
  std::vector<netlink::RouteRequest> requests;
  for (const cni::Address& address : addresses) {
    requests.push_back(adding(interface.link, address, options));
  }
  // The kernel sets a link up before it reads arp_notify of the same message (do_setlink() in
  // net/core/rtnetlink.c), and announces by what it has read (inetdev_event() in
  // net/ipv4/devinet.c).
  if (options.announce_when_up) {
    requests.push_back(netlink::set_link(interface.link, {.arp_notify = true}));
  }
  requests.push_back(netlink::set_link(interface.link, {.up = true, .arp_notify = true}));
  if (options.subnet_routes) {
    for (const netlink::LinkRoute& route : *options.subnet_routes) {
      requests.push_back(netlink::add(interface.link, route));
    }
  }
  for (const cni::Route& route : result.routes) {
    requests.push_back(adding(interface.link, route, addresses, options));
  }
  try {
    interface.sides.pod.send(requests);
  } catch (const netlink::Error& e) {
    explain(e, result, addresses);
  }
  if (v6 && options.enable_dad) wait_for_dad(interface, neighbours ? &*neighbours : nullptr);
}

void announce(const netlink::Link& device, const PodInterface& interface, const Result& result) {
  const cni::Phase phase("announce");
  std::vector<netlink::RouteRequest> requests;
  for (const cni::Address& address : result.ips) {
    requests.push_back(netlink::correct_neighbour(device, address.cidr.ip, interface.link.mac));
  }
  interface.sides.host().send(requests);
  // Setting the MAC address, to the one it has, is what makes the kernel announce:
  // NETDEV_CHANGEADDR in net/ipv4/devinet.c (with arp_notify) and net/ipv6/ndisc.c (ndisc_notify).
  interface.sides.pod.send(netlink::set_link(interface.link, {.mac = interface.link.mac}));
}

cni::Interface describe(const netlink::Link& link, const std::string& sandbox) {
  return {.name = link.name, .mac = link.mac.str(), .sandbox = sandbox};
}

const cni::Interface& entry_of(const Result& result, const std::string& name) {
  if (const auto* const found = find_entry(result, name, "")) return *found;
  throw cni::Error(Code::kInternal,
                   cat("prevResult has no interface '", name, "' in the node's namespace"));
}

bool has_mac_of(const cni::Interface& entry, const netlink::Link& link) {
  const auto mac = netlink::Mac::parse(entry.mac);
  return !mac || *mac == link.mac;
}

netlink::Link find_interface(Namespaces& sides, const Result& result, const CheckWords& words) {
  const cni::Request& request = sides.request;
  const std::string& name = request.ifname;
  const auto differs = [](const std::string& sentence, const std::string& details) {
    return cni::Error(Code::kInternal, sentence, details);
  };
  const auto* const wanted = find_entry(result, name, request.netns);
  if (wanted == nullptr) {
    throw differs(
        cat(words.sandbox, " in prevResult  doesn't match configured netns: ", request.netns),
        cat("prevResult has no interface '", name, "' in sandbox ", request.netns));
  }
  const auto link = sides.pod.find(name);
  if (!link) throw differs(cat(words.missing, name, words.missing_end), "it is not in the pod");
  if (!words.kind.empty() && link->kind != words.kind) {
    throw differs(cat(words.error, ": Container interface ", name, " not of type ", words.type),
                  cat("it is of kind '", link->kind, "'"));
  }
  // A later plugin of the chain may have given it another one and says so in the result.
  if (has_mac_of(*wanted, *link)) return *link;
  throw differs(cat(words.mac, " ", name, " Mac ", wanted->mac,
                    " doesn't match container Mac: ", link->mac.str()),
                "the first one is that of prevResult");
}

std::vector<netlink::LinkRoute> routes_as_made(const PodInterface& interface,
                                               netlink::Family family,
                                               const std::vector<cni::Address>& addresses) {
  auto out = interface.sides.pod.routes(family);
  const auto moved = tables_of(interface, family, addresses);
  for (netlink::LinkRoute& seen : out) {
    const bool is_moved = std::ranges::find(moved, seen.table) != moved.end();
    if (is_moved && seen.link == interface.link.index) seen.table = kMain;
  }
  return out;
}

void check_interface(const PodInterface& interface, const Result& result) {
  const std::string& name = interface.link.name;
  const auto present = interface.sides.pod.addresses(interface.link);
  const auto addresses = addresses_for(interface, result);
  for (const cni::Address& address : addresses) {
    if (std::ranges::none_of(present, [&](const auto& one) { return one.cidr == address.cidr; })) {
      throw cni::Error(Code::kInternal,
                       cat("Failed to match addr ", address.cidr.str(), " on interface ", name));
    }
  }
  for (const netlink::Family family : netlink::kFamilies) {
    const bool v4 = family == netlink::Family::kIpv4;
    if (std::ranges::none_of(result.routes,
                             [v4](const auto& route) { return route.dst.ip.is_v4() == v4; })) {
      continue;
    }
    const auto routes = routes_as_made(interface, family, addresses);
    for (const cni::Route& route : result.routes) {
      if (route.dst.ip.is_v4() != v4) continue;
      const auto wanted = link_route(route, addresses);
      if (std::ranges::none_of(routes,
                               [&](const auto& seen) { return same_route(seen, wanted); })) {
        throw cni::Error(
            Code::kInternal,
            cat("Expected Route ", cni::go_text(route), " not found in routing table"),
            cat("expected ", route.dst.str(),
                wanted.gateway ? cat(" via ", wanted.gateway->str()) : "", " on ", name));
      }
    }
  }
}

}  // namespace plugins
