#include "cnitool/probe/route_words.h"

#include <iterator>
#include <map>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"
#include "cnitool/probe/causes.h"
#include "libcni/common/error.h"

namespace tool::probe {

using cni::cat;
using netlink::Ip;
using netlink::LinkRoute;

namespace {

// As a shell takes it: the text is part of commands, and root in a pod names links as it likes.
std::string name_of_link(Scene& scene, const Subject* where, int index) {
  const auto link = index == 0 ? std::nullopt : scene.at(where).find(index);
  return link ? doctor::quoted(printable(link->name)) : "?";
}

// RTN_*, as ip-route(8) has them before the destination.
const char* kind_of(const LinkRoute& route) {
  constexpr const char* kKinds[] = {"", "", "local ", "broadcast ", "anycast ", "multicast "};
  return route.type < std::size(kKinds) ? kKinds[route.type] : "";
}

// RTAX_*, as ip-route(8) has them. Values without a unit are the kernel's.
constexpr const char* kMetrics[] = {
    "",         "",        "mtu",      "window",     "rtt",      "rttvar",
    "ssthresh", "cwnd",    "advmss",   "reordering", "hoplimit", "initcwnd",
    "",         "rto_min", "initrwnd", "quickack",   "",         "fastopen_no_cookie"};

std::string text_of_metrics(const std::map<unsigned, std::uint32_t>& metrics) {
  constexpr unsigned kLock = 1, kFeatures = 12;  // RTAX_LOCK: a bit for each of the others
  constexpr unsigned kRtoMin = 13;               // which ip(8) locks by itself
  const auto lock = metrics.find(kLock);
  std::string out;
  for (const auto& [type, value] : metrics) {
    if (type == kFeatures && (value & 1) != 0) out += " features ecn";
    if (type >= std::size(kMetrics) || *kMetrics[type] == 0) continue;
    const bool is_locked =
        type != kRtoMin && lock != metrics.end() && (lock->second >> type & 1) != 0;
    out += cat(" ", kMetrics[type], is_locked ? " lock " : " ", value);
  }
  return out;
}

// What a route is known by beside its destination, and what it gives to packets.
std::string rest_of(const LinkRoute& route) {
  constexpr std::uint32_t kMainTable = 254;
  std::string out;
  if (route.tos != 0) out += cat(" tos ", int{route.tos});
  out += cat(" proto ", int{route.protocol});
  if (route.dst.ip.is_v4()) out += cat(" scope ", int{route.scope});
  if (route.source) out += cat(" src ", route.source->str());
  if (route.priority != 0) out += cat(" metric ", route.priority);
  if (route.table != kMainTable) out += cat(" table ", route.table);
  constexpr const char* kPreferences[] = {"medium", "high", "", "low"};  // RFC 4191, 2.1
  const unsigned preference = route.preference.value_or(2);
  if (preference < std::size(kPreferences) && *kPreferences[preference] != 0) {
    out += cat(" pref ", kPreferences[preference]);
  }
  return out;
}

// One is the route's own; several are behind all else in the grammar of ip-route(8).
std::string hops_of(const LinkRoute& route, Scene& scene, const Subject* where) {
  if (route.nexthop != 0) return cat(" nhid ", route.nexthop);
  const auto text = [&](const netlink::NextHop& hop) {
    return cat(hop.gateway ? cat(" via ", hop.gateway->str()) : "", " dev ",
               name_of_link(scene, where, hop.link), hop.on_link ? " onlink" : "");
  };
  std::string out;
  for (const netlink::NextHop& hop : route.multipath) {
    out += cat(" nexthop", text(hop), " weight ", hop.weight);
  }
  if (!out.empty()) return out;
  return text({.link = route.link, .gateway = route.gateway, .on_link = route.on_link});
}

}  // namespace

std::string text_of(const LinkRoute& route, Scene& scene, const Subject* where) {
  const std::string refusal = netlink::refusal_of(route);
  const std::string to = route.dst.is_default() ? "default" : route.dst.str();
  if (!refusal.empty()) return cat(refusal, " ", to);
  std::string out = cat(kind_of(route), to);
  for (const netlink::NextHop& hop : route.multipath) {
    out += " nexthop";
    if (hop.gateway) out += cat(" via ", hop.gateway->str());
    out += cat(" dev ", name_of_link(scene, where, hop.link));
  }
  if (route.gateway) out += cat(" via ", route.gateway->str());
  if (route.link != 0) out += cat(" dev ", name_of_link(scene, where, route.link));
  return out;
}

std::string name_of_route(const LinkRoute& route, Scene& scene, const Subject* where) {
  if (route.nexthop == 0) return text_of(route, scene, where);
  return cat(route.dst.is_default() ? "default" : route.dst.str(), " nhid ", route.nexthop);
}

std::string change_of(const LinkRoute& route, std::pair<unsigned, std::uint32_t> metric,
                      Scene& scene, const Subject* where) {
  const auto [type, value] = metric;
  if (route.has_more) {
    return cat(command(route.dst.ip, "-d route"), "show ",
               route.dst.is_default() ? "default" : route.dst.str(),
               "  # `ip route change` has to name all of it, and ", kMetrics[type], " ", value);
  }
  auto metrics = route.metrics;
  metrics[type] = value;
  return cat(command(route.dst.ip, "route"), "change ", kind_of(route),
             route.dst.is_default() ? "default" : route.dst.str(), rest_of(route),
             text_of_metrics(metrics), hops_of(route, scene, where));
}

std::string command(const Ip& ip, const char* object) {
  return cat("ip ", ip.is_v4() ? "" : "-6 ", object, " ");
}

std::string whose_route(const LinkRoute& route) {
  switch (route.protocol) {  // RTPROT_*
    case 11:
    case 186:
    case 188:
      return "FRR's";
    case 12:
      return "BIRD's, as Calico has it";
    case 16:
      return "of DHCP";
    case 80:
      return "Calico's";
    default:
      return kSomebodys;
  }
}

std::string text_of(const netlink::PolicyStep& rule) {
  return cat("rule of priority ", rule.priority, " (", printable(rule.str()), ")");
}

}  // namespace tool::probe
