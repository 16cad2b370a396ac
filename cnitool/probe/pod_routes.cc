#include "cnitool/probe/pod_routes.h"

#include <algorithm>

#include "cnitool/output.h"
#include "cnitool/probe/route_words.h"
#include "netlink/types/error.h"

namespace tool::probe {

namespace {

using netlink::Family;
using netlink::Ip;
using netlink::LinkRoute;

constexpr std::uint32_t kTableMain = 254;

/// A gateway of a default route, and by which interface; empty: the hosts are on the link.
struct Exit {
  std::string link;
  std::optional<Ip> gateway;
};

void add_exits(const Subject& pod, Family family, std::vector<Exit>& out) {
  for (const cni::Route& route : pod.result.routes) {
    if (!route.dst.is_default() || route.dst.ip.family() != family) continue;
    if (route.gateway) {
      out.push_back({pod.key.ifname, route.gateway});
      continue;
    }
    const std::size_t before = out.size();
    for (const cni::Address& one : pod.result.ips) {
      const bool is_gateway = one.gateway && one.gateway->family() == family;
      if (is_gateway) out.push_back({pod.key.ifname, one.gateway});
    }
    if (out.size() == before) out.push_back({pod.key.ifname, std::nullopt});
  }
}

std::string text_of(const Exit& one) {
  return one.gateway ? cat("default via ", one.gateway->str()) : std::string("default");
}

// Those that decide, or refuse: of IPv6 there may be one of router advertisements beside that of
// the result, with one metric.
std::vector<LinkRoute> default_routes(Scene& scene, const Subject& pod, Family family) {
  constexpr std::uint32_t kKernels = 0xffff'ffff;  // its own "unreachable default" of IPv6
  std::vector<LinkRoute> out;
  for (const LinkRoute& one : scene.routes(&pod, family)) {
    if (!one.dst.is_default() || one.table != kTableMain || one.priority == kKernels) continue;
    if (!out.empty() && one.priority < out.front().priority) out.clear();
    if (out.empty() || one.priority == out.front().priority) out.push_back(one);
  }
  return out;
}

bool leads_by(const LinkRoute& route, const Exit& exit, Scene& scene, const Subject& pod) {
  if (!netlink::refusal_of(route).empty()) return false;
  std::vector<LinkRoute> hops = netlink::each_hop(route);
  return std::ranges::any_of(hops, [&](const LinkRoute& hop) {
    const auto link = scene.at(&pod).find(hop.link);
    return link && link->name == exit.link && (!exit.gateway || hop.gateway == exit.gateway);
  });
}

// In a table of its own, as of sbr and vrf.
bool has_table(const Subject& pod, const std::vector<Exit>& exits, Family family, Scene& scene) {
  return std::ranges::any_of(scene.routes(&pod, family), [&](const LinkRoute& route) {
    return route.dst.is_default() && route.table != kTableMain &&
           std::ranges::any_of(exits, [&](const Exit& one) {
             return one.link == pod.key.ifname && leads_by(route, one, scene, pod);
           });
  });
}

std::optional<doctor::Finding> strayed(const Subject& pod, const std::vector<Exit>& exits,
                                       Family family, Scene& scene) {
  const auto own = std::ranges::find(exits, pod.key.ifname, &Exit::link);
  if (own == exits.end()) return std::nullopt;
  const auto found = default_routes(scene, pod, family);
  const bool is_right = std::ranges::any_of(found, [&](const LinkRoute& route) {
    return std::ranges::any_of(exits,
                               [&](const Exit& one) { return leads_by(route, one, scene, pod); });
  });
  if (is_right || has_table(pod, exits, family, scene)) return std::nullopt;
  return doctor::Finding{
      .level = doctor::Level::kError,
      .what =
          !found.empty()
              ? cat(prefix_of(&pod), "its default route is '", text_of(found.front(), scene, &pod),
                    "', and its result has '", text_of(*own), "'")
              : cat(prefix_of(&pod), "there is no default route, which its result has"),
      .why = "the pod reaches other networks by another way than its network has, or by none",
      .remedy = restart_of(pod),
      .networks = {pod.key.network}};
}

// What has a time to live of one ends at the first router. Probes have one of their own.
std::optional<doctor::Finding> short_lived(const Subject& pod, int link, Family family,
                                           Scene& scene) {
  constexpr std::uint8_t kUnicast = 1;  // RTN_UNICAST
  constexpr unsigned kHopLimit = 10;    // RTAX_HOPLIMIT
  const auto finding_of = [&](const std::string& what, const std::string& command) {
    return doctor::Finding{.level = doctor::Level::kError,
                           .what = cat(prefix_of(&pod), what,
                                       ": the time to live of packets ends at the first router"),
                           .why = "the pod reaches no host behind it",
                           .remedy = command_in(&pod, command),
                           .networks = {pod.key.network}};
  };
  bool has_own = false;
  for (const LinkRoute& one : scene.routes(&pod, family)) {
    if (one.type != kUnicast || !one.gateway || one.link != link) continue;
    has_own |= one.hop_limit != 0;
    if (one.hop_limit != 1) continue;
    const std::string text = text_of(one, scene, &pod);
    return finding_of(cat("its route '", text, "' has hoplimit 1"),
                      change_of(one, {kHopLimit, 64}, scene, &pod));
  }
  const std::string key = family == Family::kIpv4
                              ? "net/ipv4/ip_default_ttl"
                              : cat("net/ipv6/conf/", pod.key.ifname, "/hop_limit");
  if (has_own || scene.sysctl(&pod, key) != "1") return std::nullopt;
  return finding_of(cat(printable(key), " is 1"),
                    cat("sysctl -w ", doctor::quoted(cat(key, "=64"))));
}

}  // namespace

void add_strayed_routes(const std::vector<Subject>& subjects, const std::vector<bool>& asked,
                        const Verdicts& verdicts, std::vector<Verdicts::Known>& out) {
  const NodeFacts facts;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const Subject& pod = subjects[i];
    for (const Family family : netlink::kFamilies) {
      const Verdicts::End end{i, family};
      if (!asked[i] || !address_of(pod, family) || verdicts.has_cause(end)) continue;
      std::vector<Exit> exits;
      for (const Subject& one : subjects) {
        if (one.netns != pod.netns) continue;
        add_exits(one, family, exits);
        // Whoever calls the plugins may lead it there, as Multus does by "default-route".
        if (one.key != pod.key && address_of(one, family)) exits.push_back({one.key.ifname, {}});
      }
      try {
        Scene scene(facts);
        const auto link = scene.at(&pod).find(pod.key.ifname);
        if (!link || !link->up) continue;
        auto finding = strayed(pod, exits, family, scene);
        if (!finding && !exits.empty()) finding = short_lived(pod, link->index, family, scene);
        if (finding) out.push_back({*std::move(finding), {end}});
      } catch (const netlink::Error&) {  // it has ended
      }
    }
  }
}

}  // namespace tool::probe
