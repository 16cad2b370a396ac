#include "plugins/dhcp/daemon/state.h"

#include "netlink/types/fd.h"
#include "plugins/common/state/fields.h"

namespace plugins {

template <>
inline constexpr auto kFields<cni::Route> =
    std::tuple{Field{"dst", &cni::Route::dst},           Field{"gw", &cni::Route::gateway},
               Field{"mtu", &cni::Route::mtu},           Field{"advmss", &cni::Route::advmss},
               Field{"priority", &cni::Route::priority}, Field{"table", &cni::Route::table},
               Field{"scope", &cni::Route::scope}};
template <>
inline constexpr auto kFields<cni::Dns> =
    std::tuple{Field{"nameservers", &cni::Dns::nameservers}, Field{"domain", &cni::Dns::domain},
               Field{"search", &cni::Dns::search}, Field{"options", &cni::Dns::options}};
template <>
inline constexpr auto kFields<dhcp::Lease> =
    std::tuple{Field{"address", &dhcp::Lease::address},
               Field{"gateway", &dhcp::Lease::gateway},
               Field{"routes", &dhcp::Lease::routes},
               Field{"dns", &dhcp::Lease::dns},
               Field{"mtu", &dhcp::Lease::mtu},
               Field{"server", &dhcp::Lease::server},
               Field{"serverMac", &dhcp::Lease::server_mac},
               Field{"renew", &dhcp::Lease::renew},
               Field{"rebind", &dhcp::Lease::rebind},
               Field{"expire", &dhcp::Lease::expire}};
template <>
inline constexpr auto kFields<dhcp::Identity> = std::tuple{
    Field{"clientID", &dhcp::Identity::client_id}, Field{"provided", &dhcp::Identity::provided},
    Field{"wanted", &dhcp::Identity::wanted}, Field{"broadcast", &dhcp::Identity::broadcast},
    Field{"probe", &dhcp::Identity::probe}};
template <>
inline constexpr auto kFields<dhcp::State> =
    std::tuple{Field{"bootID", &dhcp::State::boot},       Field{"", &dhcp::State::owner},
               Field{"link", &dhcp::State::link},         Field{"identity", &dhcp::State::identity},
               Field{"priority", &dhcp::State::priority}, Field{"dns", &dhcp::State::dns},
               Field{"lease", &dhcp::State::lease}};

}  // namespace plugins

namespace dhcp {

namespace {

bool is_lease(const Lease& lease) {
  return lease.address.ip.is_v4() && lease.server.is_v4() && lease.renew <= lease.rebind &&
         lease.rebind <= lease.expire;
}

}  // namespace

std::string State::name() const {
  return cni::cat(owner.container_id, "/", owner.network, "/", owner.ifname);
}

std::string State::text() const { return plugins::json_text(*this); }

std::optional<State> State::from(const std::string& text, const std::string& boot) {
  auto out = plugins::from_json_text<State>(text);
  if (out && (out->boot != boot || (out->lease && !is_lease(*out->lease)))) out.reset();
  return out;
}

cni::Result result_of(const State& state) {
  if (!state.lease) return {};
  cni::Result out{.ips = {{.cidr = state.lease->address, .gateway = state.lease->gateway}},
                  .routes = state.lease->routes};
  if (state.dns) out.dns = state.lease->dns;
  for (cni::Route& route : out.routes) {
    if (state.priority != 0) route.priority = state.priority;
  }
  return out;
}

std::string boot_id() {
  const auto text = netlink::read_file("/proc/sys/kernel/random/boot_id").value_or("");
  return text.substr(0, text.find('\n'));
}

}  // namespace dhcp
