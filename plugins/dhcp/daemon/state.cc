#include "plugins/dhcp/daemon/state.h"

#include "netlink/types/fd.h"
#include "plugins/common/state/fields.h"

namespace plugins {

using cni::Dns;
using cni::Route;
using dhcp::Identity;
using dhcp::Lease;
using dhcp::State;

template <>
inline constexpr auto kFields<Route> =
    std::tuple{Field{"dst", &Route::dst},           Field{"gw", &Route::gateway},
               Field{"mtu", &Route::mtu},           Field{"advmss", &Route::advmss},
               Field{"priority", &Route::priority}, Field{"table", &Route::table},
               Field{"scope", &Route::scope}};
template <>
inline constexpr auto kFields<Dns> =
    std::tuple{Field{"nameservers", &Dns::nameservers}, Field{"domain", &Dns::domain},
               Field{"search", &Dns::search}, Field{"options", &Dns::options}};
template <>
inline constexpr auto kFields<Lease> = std::tuple{Field{"address", &Lease::address},
                                                  Field{"gateway", &Lease::gateway},
                                                  Field{"routes", &Lease::routes},
                                                  Field{"dns", &Lease::dns},
                                                  Field{"mtu", &Lease::mtu},
                                                  Field{"server", &Lease::server},
                                                  Field{"serverMac", &Lease::server_mac},
                                                  Field{"renew", &Lease::renew},
                                                  Field{"rebind", &Lease::rebind},
                                                  Field{"expire", &Lease::expire}};
template <>
inline constexpr auto kFields<Identity> =
    std::tuple{Field{"clientID", &Identity::client_id}, Field{"provided", &Identity::provided},
               Field{"wanted", &Identity::wanted}, Field{"broadcast", &Identity::broadcast},
               Field{"probe", &Identity::probe}};
template <>
inline constexpr auto kFields<State> =
    std::tuple{Field{"bootID", &State::boot},       Field{"", &State::owner},
               Field{"link", &State::link},         Field{"identity", &State::identity},
               Field{"priority", &State::priority}, Field{"dns", &State::dns},
               Field{"lease", &State::lease}};

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
