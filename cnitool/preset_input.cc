#include "cnitool/preset_input.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "cnitool/node_object.h"
#include "libcni/common/split.h"
#include "netlink/route/socket.h"

namespace tool {

namespace {

using netlink::Cidr;

cni::Error wrong(const std::string& what, const std::string& expected = {}) {
  return {cni::Code::kInvalidEnvironment, cat("preset: ", what), expected};
}

void require_network(const Cidr& one, const std::string& what) {
  if (one == one.network()) return;
  throw wrong(cat(what, " ", one.str(), " has host bits"),
              cat("expected a network such as ", one.network().str()));
}

// Neighbours of the node would have the addresses of pods.
void require_free(const Cidr& pods, const std::string& what) {
  netlink::RouteSocket socket;
  std::set<int> uplinks;
  for (const netlink::LinkRoute& route : socket.routes(pods.ip.family())) {
    if (route.dst.is_default()) uplinks.insert(route.link);
  }
  for (const netlink::LinkAddress& one : socket.addresses()) {
    const Cidr lan = one.cidr.network();
    if (!uplinks.contains(one.link) || lan.ip.family() != pods.ip.family()) continue;
    if (!pods.contains(lan.ip) && !lan.contains(pods.ip)) continue;
    const auto link = socket.find(one.link);
    throw wrong(cat(what, " ", pods.str(), " overlaps ", lan.str(), ", the node's network on ",
                    link ? link->name : "a link that has gone"),
                "expected addresses that no other host has");
  }
}

// What host-local can allocate from, and Kubernetes gives a node.
void require_pod_cidrs(const std::vector<Cidr>& all, const std::string& what) {
  for (const Cidr& one : all) {
    require_network(one, what);
    if (one.prefix > one.ip.bits() - 2) {
      throw wrong(cat(what, " ", one.str(), " is too small"), "expected at least four addresses");
    }
    if (one.prefix == 0 || one.ip.is_loopback() || one.ip.is_multicast()) {
      throw wrong(cat(what, " ", one.str(), " is no network for pods"));
    }
    if (one.ip.is_link_local()) {
      throw wrong(cat(what, " ", one.str(), " is link-local: nobody routes it"),
                  "expected a network such as 10.244.1.0/24 or fd00:244:0:1::/64");
    }
    require_free(one, what);
  }
  if (all.size() == 2 && all[0].ip.family() == all[1].ip.family()) {
    throw wrong(cat(what, ": ", all[0].str(), " and ", all[1].str(), " are of one family"),
                "expected one network, or one of each family");
  }
  if (all.size() > 2) throw wrong(cat(what, ": expected at most two networks"));
}

std::vector<Cidr> sorted(std::vector<Cidr> all) {
  std::ranges::sort(all);  // IPv4 first
  return all;
}

std::vector<Cidr> pod_cidrs_of(const cni::SubnetEnv& env) {
  std::vector<Cidr> out;
  if (env.subnet) out.push_back(env.subnet->network());
  if (env.ipv6_subnet) out.push_back(env.ipv6_subnet->network());
  return out;
}

// Kinds of links that carry no traffic of the node to other hosts, or only that to one peer.
bool is_uplink(const netlink::Link& link) {
  constexpr std::string_view kOthers[] = {"bridge", "veth",   "dummy", "ifb",    "tun",
                                          "ppp",    "ipip",   "sit",   "gre",    "ip6gre",
                                          "ip6tnl", "vti",    "vti6",  "xfrm",   "wireguard",
                                          "nlmon",  "netkit", "vrf",   "ip_vti", "openvswitch"};
  return link.up && !link.loopback && std::ranges::find(kOthers, link.kind) == std::end(kOthers);
}

}  // namespace

std::vector<Cidr> networks_from(const std::string& text, const std::string& what) {
  std::vector<Cidr> out;
  for (const std::string_view part : cni::split(text, ", \t")) {
    const auto one = Cidr::parse(part);
    if (!one) throw wrong(cat(what, ": not a network: \"", part, "\""), "expected ADDRESS/LENGTH");
    require_network(*one, what);
    for (const Cidr& other : out) {
      if (!one->contains(other.ip) && !other.contains(one->ip)) continue;
      throw wrong(cat(what, ": ", one->str(), " overlaps with ", other.str()));
    }
    out.push_back(*one);
  }
  if (out.empty()) throw wrong(cat(what, ": expected a network, or several separated by commas"));
  return out;
}

cni::SubnetEnv complete_subnet_env(const std::string& path) {
  const auto env = cni::SubnetEnv::read(path);
  if (!env) {
    throw wrong(cat("open ", path, ": no such file or directory"), "flanneld writes it");
  }
  std::string missing;
  for (const auto key : env->missing()) missing += cat(missing.empty() ? "" : ", ", key);
  if (!missing.empty()) throw wrong(cat(path, " is missing ", missing));
  return *env;
}

std::vector<Cidr> pod_cidrs_from(const PresetOptions& options) {
  constexpr const char* kSources = "--pod-cidr, --subnet-env or --node-json";
  const auto given = std::ranges::count_if(
      std::initializer_list<const std::string*>{&options.pod_cidrs, &options.subnet_env,
                                                &options.node_json},
      [](const std::string* one) { return !one->empty(); });
  if (given != 1) throw wrong(cat("expected one of ", kSources));
  std::string what = "--pod-cidr";
  std::vector<Cidr> out;
  if (!options.pod_cidrs.empty()) {
    out = networks_from(options.pod_cidrs, what);
  } else if (!options.subnet_env.empty()) {
    what = options.subnet_env;
    out = pod_cidrs_of(complete_subnet_env(options.subnet_env));
  } else {
    what = source_of(options.node_json);
    out = node_object(input_from(options.node_json), what).pod_cidrs;
    if (out.empty()) {
      throw wrong(cat(what, ": the Node has no spec.podCIDRs"),
                  "kube-controller-manager needs --allocate-node-cidrs and --cluster-cidr");
    }
    what += ": spec.podCIDRs";
  }
  require_pod_cidrs(out, what);
  return sorted(std::move(out));
}

UplinkMtu smallest_uplink() {
  constexpr unsigned kSmallest = 576, kOfKubenet = 1460;
  UplinkMtu out;
  netlink::RouteSocket socket;
  for (const netlink::Link& link : socket.links()) {
    if (!is_uplink(link) || (out.mtu != 0 && link.mtu >= out.mtu)) continue;
    out = {link.name, link.mtu};
  }
  return out.mtu < kSmallest ? UplinkMtu{"", kOfKubenet} : out;
}

unsigned mtu_from(const PresetOptions& options, unsigned fallback, bool has_ipv6) {
  const unsigned least = has_ipv6 ? 1280 : 68;  // RFC 8200, RFC 791
  const std::string& text = options.mtu;
  unsigned mtu = fallback;
  if (text == "auto") {
    const auto [name, of_uplink] = smallest_uplink();
    mtu = of_uplink - std::min(of_uplink, options.overhead);
  } else if (!text.empty()) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mtu);
    if (error != std::errc() || end != text.data() + text.size() || mtu > 65535) {
      throw wrong(cat("--mtu: expected a number of bytes or auto: \"", text, "\""));
    }
  }
  if (options.overhead != 0 && text != "auto") throw wrong("--overhead is for --mtu auto");
  if (!text.empty() && mtu < least) {
    throw wrong(cat("--mtu: ", mtu, " bytes are too few"),
                cat("IPv", has_ipv6 ? 6 : 4, " needs at least ", least));
  }
  return mtu;
}

}  // namespace tool
