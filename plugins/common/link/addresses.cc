#include "plugins/common/link/addresses.h"

#include <algorithm>

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

cni::Result request_addresses(const cni::Request& request, const std::string& ipam_type,
                              std::size_t interface, cni::Undo& undo) {
  cni::Result result = cni::ipam_add(request, ipam_type);
  undo.add(cni::ReleaseAddresses{request, ipam_type});
  if (result.ips.empty()) {
    throw cni::Error(cni::Code::kInternal, "IPAM plugin returned missing IP config");
  }
  for (cni::Address& address : result.ips) address.interface = interface;
  return result;
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
