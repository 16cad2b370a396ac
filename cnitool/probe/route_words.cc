#include "cnitool/probe/route_words.h"

#include <iterator>

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

std::string rest_of(const LinkRoute& route) {
  constexpr std::uint32_t kMainTable = 254;
  std::string out = cat(" proto ", int{route.protocol});
  if (route.source) out += cat(" src ", route.source->str());
  if (route.priority != 0) out += cat(" metric ", route.priority);
  return route.table == kMainTable ? out : cat(out, " table ", route.table);
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
