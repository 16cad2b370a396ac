#include "plugins/common/link/master.h"

#include <linux/rtnetlink.h>

#include <optional>

#include "libcni/common/error.h"

namespace plugins {

namespace {

using cni::cat;
using cni::Code;
using netlink::Link;
using netlink::LinkRoute;

constexpr std::int64_t kMinMtu = 68, kMaxMtu = 65535;
constexpr std::size_t kMaxName = 127;  // ALTIFNAMSIZ - 1

std::optional<LinkRoute> default_route(netlink::RouteSocket& where, netlink::Family family) {
  std::optional<LinkRoute> best;
  for (const LinkRoute& route : where.routes(family)) {
    if (!route.dst.is_default() || route.table != RT_TABLE_MAIN || route.link == 0) continue;
    if (!best || route.priority < best->priority) best = route;
  }
  return best;
}

}  // namespace

Link find_master(netlink::RouteSocket& where, const std::string& configured) {
  if (!configured.empty()) {
    if (configured.size() <= kMaxName) {
      if (auto link = where.find(configured)) return *std::move(link);
    }
    throw cni::Error(Code::kInvalidConfig, "Link not found", cat("master: \"", configured, "\""));
  }
  for (const auto family : netlink::kFamilies) {
    const auto route = default_route(where, family);
    if (!route) continue;
    if (auto link = where.find(route->link)) return *std::move(link);
  }
  throw cni::Error(Code::kInternal, "no default route interface found",
                   "the config names no master: set \"master\", or add a default route");
}

Link lookup_master(netlink::RouteSocket& where, const std::string& configured) {
  if (configured.empty()) return find_master(where, configured);
  return cni::during(cat("failed to lookup master \"", configured, "\""),
                     [&] { return find_master(where, configured); });
}

void require_possible_mtu(const cni::Request& request, std::int64_t mtu) {
  if (mtu == 0 || (mtu >= kMinMtu && mtu <= kMaxMtu)) return;
  request.reader()["mtu"].fail(cat("expected ", kMasterMtu));
}

void require_mtu(std::int64_t mtu, const Link& master) {
  if (mtu > 0 && mtu < kMinMtu) {
    throw cni::Error(Code::kInvalidConfig, cat("mtu: expected ", kMasterMtu, ": ", mtu));
  }
  if (mtu >= 0 && mtu <= master.mtu) return;
  throw cni::Error(Code::kInvalidConfig,
                   cat("invalid MTU ", mtu, ", must be [0, master MTU(", master.mtu, ")]"),
                   cat("mtu: '", master.name, "' carries no larger packets"));
}

Link require_usable_master(const std::string& configured, std::int64_t mtu) try {
  netlink::RouteSocket host;
  Link master = lookup_master(host, configured);
  require_mtu(mtu, master);
  return master;
} catch (const cni::Error& e) {
  throw cni::Error(Code::kPluginUnavailable, e.what(), e.details());
}

}  // namespace plugins
