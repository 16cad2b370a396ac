#include "plugins/common/link/addresses.h"

#include <linux/rtnetlink.h>

#include <algorithm>
#include <utility>

#include "libcni/plugin/ipam.h"

namespace plugins {

namespace {

// A route to "default" that names no gateway gets the first one of its family later.
bool has_default_route(const cni::Result& result, bool v4) {
  return std::ranges::any_of(result.routes, [v4](const cni::Route& route) {
    return route.dst.is_default() && route.dst.ip.is_v4() == v4;
  });
}

}  // namespace

cni::Result request_addresses(const cni::Request& request, const AddressSource& source,
                              cni::Undo& undo) {
  cni::Result result = cni::ipam_add(request, source.ipam_type);
  undo.add(cni::ReleaseAddresses{request, source.ipam_type});
  if (result.ips.empty()) {
    throw cni::Error(cni::Code::kInternal, "IPAM plugin returned missing IP config");
  }
  for (cni::Address& address : result.ips) address.interface = source.interface;
  if (source.ignore_default_route) {
    result.routes = without_default_routes(std::move(result.routes));
  }
  return result;
}

std::vector<cni::Route> without_default_routes(std::vector<cni::Route> routes) {
  std::erase_if(routes, [](const cni::Route& route) {
    const unsigned table = route.table.value_or(RT_TABLE_MAIN);
    const bool is_main = table == RT_TABLE_MAIN || table == RT_TABLE_UNSPEC;
    return route.dst.prefix == 0 && is_main;
  });
  return routes;
}

Reach reach_of(const cni::Ip& gateway, const std::vector<cni::Address>& addresses) {
  if (gateway.is_link_local() && !gateway.is_v4()) return Reach::kSubnet;
  bool is_named = false, has_subnet = false, has_family = false;
  for (const cni::Address& address : addresses) {
    if (address.cidr.ip.family() != gateway.family()) continue;
    if (address.cidr.contains(gateway)) return Reach::kSubnet;
    has_family = true;
    is_named = is_named || address.gateway == gateway;
    has_subnet = has_subnet || address.cidr.prefix != gateway.bits();
  }
  return has_family && (is_named || !has_subnet) ? Reach::kOnLink : Reach::kNowhere;
}

void disconnect_and_release(const cni::Request& request, const Disconnect& disconnect) {
  cni::BestEffort each;
  std::string ipam_type;
  each("release the addresses", [&] { ipam_type = cni::ipam_type(request); });
  const auto release = [&] {
    each("release the addresses",
         [&] { cni::ipam_forward(request, ipam_type, cni::Command::kDel); });
  };
  const bool over_the_link = ipam_type == "dhcp";
  if (over_the_link) release();
  if (disconnect(each) && !over_the_link) release();
  each.finish();
}

void disconnect_and_collect(const cni::Request& request, cni::Collect& collect,
                            const Disconnect& disconnect) {
  cni::BestEffort each;
  if (disconnect(each)) {
    each("collect addresses",
         [&] { cni::ipam_collect(request, cni::ipam_type(request), collect); });
  }
  each.finish();
}

void complete_gateways(const Gateways& wanted, cni::Result& result) {
  for (cni::Address& address : result.ips) {
    if (!address.gateway && wanted.first_host) address.gateway = address.cidr.network().ip.next();
    const bool v4 = address.cidr.ip.is_v4();
    if (!wanted.default_route || !address.gateway || has_default_route(result, v4)) continue;
    const auto any = cni::Ip::any(address.cidr.ip.family());
    result.routes.push_back({.dst = {any, 0}, .gateway = address.gateway});
  }
}

}  // namespace plugins
