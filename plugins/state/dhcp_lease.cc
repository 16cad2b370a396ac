#include "plugins/state/dhcp_lease.h"

#include <algorithm>
#include <charconv>

#include "netlink/types/fd.h"
#include "plugins/state/fields.h"

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

using nlohmann::json;

// "ff00" for [255, 0]. Other text stays, and is refused.
void bytes_of_digits(json& place) {
  if (!place.is_string()) return;
  const auto& text = place.get_ref<const std::string&>();
  json out = json::array();
  for (std::size_t i = 0; i < text.size(); i += 2) {
    std::uint8_t byte = 0;
    const char* const begin = text.data() + i;
    const char* const end = begin + std::min<std::size_t>(2, text.size() - i);
    if (end - begin != 2 || std::from_chars(begin, end, byte, 16).ptr != end) return;
    out.push_back(byte);
  }
  place = std::move(out);
}

void modernize_identity(json& identity) {
  bytes_of_digits(identity.at("clientID"));
  bytes_of_digits(identity.at("wanted"));
  json& provided = identity.at("provided");
  if (!provided.is_object()) return;
  json options = json::array();
  for (auto& [code, value] : provided.items()) {
    bytes_of_digits(value);
    options.push_back({json::parse(code), std::move(value)});
  }
  provided = std::move(options);
}

// A result, which has no members for what is absent.
void modernize_lease(json& lease) {
  if (!lease.is_object() || !lease.contains("result")) return;
  const json result = std::move(lease["result"]);
  lease.update(result.at("ips").at(0));
  lease["routes"] = result.value("routes", json::array());
  for (json& route : lease["routes"]) {
    for (const char* const key : {"mtu", "advmss", "priority"}) route.emplace(key, 0);
  }
  lease["dns"] = result.value("dns", json::object());
  lease["dns"].emplace("domain", "");
}

// 0.1.0 wrote bytes as hexadecimal digits, options by their codes, and the lease as a CNI result.
void modernize(json& state) {
  modernize_identity(state.at("identity"));
  if (state.contains("lease")) modernize_lease(state["lease"]);
}

bool is_lease(const Lease& lease) {
  return lease.address.ip.is_v4() && lease.server.is_v4() && lease.renew <= lease.rebind &&
         lease.rebind <= lease.expire;
}

}  // namespace

std::string State::name() const {
  const auto& [network, id, ifname] = owner.key;
  return cni::cat(id, "/", network, "/", ifname);
}

std::string State::text() const { return plugins::json_text(*this); }

std::optional<State> State::from(const std::string& text, const std::string& boot) {
  auto out = plugins::from_json_text<State>(text, {.modernize = modernize});
  if (out && out->boot != boot) return std::nullopt;
  if (out && out->lease && !is_lease(*out->lease)) {
    plugins::refuse_content("lease: expected IPv4 addresses, and times in order");
  }
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
