#include <netinet/in.h>

#include <algorithm>
#include <iterator>

#include "cnitool/doctor/facts.h"
#include "cnitool/doctor/look.h"
#include "netlink/nf/socket.h"

namespace tool::doctor {

namespace {

namespace nf = netlink::nf;
using netlink::Family;

// Looks at all tables: rules decide who is routed by one.
bool has_default_route(const Node& node, Family family) {
  return std::ranges::any_of(node.routes, [family](const netlink::LinkRoute& route) {
    return route.dst.is_default() && route.dst.ip.family() == family;
  });
}

}  // namespace

std::vector<nf::Flow> stranded_connections(const Node& node) try {
  std::vector<nf::Flow> out;
  for (const Family family : netlink::kFamilies) {
    if (has_default_route(node, family) || !uses(node, family)) continue;
    auto socket = nf::NfSocket::find();
    if (!socket) return out;
    for (const int protocol : {IPPROTO_TCP, IPPROTO_UDP}) {
      std::ranges::copy(
          nf::flows(*socket, {.family = family, .protocol = static_cast<std::uint8_t>(protocol)}),
          std::back_inserter(out));
    }
  }
  return out;
} catch (const netlink::Error&) {
  return {};  // of root alone: the default route is missed all the same
}

}  // namespace tool::doctor
