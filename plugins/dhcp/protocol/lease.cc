#include "plugins/dhcp/protocol/lease.h"

#include <algorithm>
#include <bit>

#include "libcni/common/error.h"

namespace dhcp {

namespace {

using cni::cat;
using cni::Route;
using netlink::Cidr;

constexpr std::uint32_t kInfinite = 0xffffffff;
constexpr Time kDefaultLease = std::chrono::hours(1);
constexpr Time kMinLease = std::chrono::seconds(2);  // less would be nothing but renewals
constexpr unsigned kScopeLink = 253;

cni::Error refusal(const std::string& what) { return {cni::Code::kInternal, what}; }

unsigned prefix_of(const Options& options) {
  const auto found = options.find(option::kSubnetMask);
  if (found == options.end()) throw refusal("DHCP option Subnet Mask not found in DHCPACK");
  const auto mask = u32_in(options, option::kSubnetMask);
  const auto prefix = static_cast<unsigned>(std::countl_one(mask.value_or(0)));
  if (!mask || prefix == 0 || (prefix < 32 && (*mask << prefix) != 0)) {
    throw refusal("DHCPACK has a subnet mask that is none");
  }
  return prefix;
}

// Whether it is the subnet's own address or its broadcast address.
bool is_of_subnet(const Ip& ip, const Cidr& subnet) {
  return subnet.prefix < 31 &&
         (ip == subnet.ip.masked(subnet.prefix) || ip == subnet.ip.broadcast(subnet.prefix));
}

void set_times(const Options& options, Time requested, Lease& lease) {
  const auto given = u32_in(options, option::kLeaseTime);
  if (given == kInfinite) return;
  const Time length =
      std::max<Time>(kMinLease, given ? Time(std::chrono::seconds(*given)) : kDefaultLease);
  const auto stated = [&](std::uint8_t code, Time otherwise) {
    const auto value = u32_in(options, code);
    return value ? Time(std::chrono::seconds(*value)) : otherwise;
  };
  Time renew = stated(option::kRenewalTime, length / 2);
  Time rebind = stated(option::kRebindingTime, length * 7 / 8);
  if (renew <= Time(0) || renew >= rebind || rebind >= length) {
    renew = length / 2;
    rebind = length * 7 / 8;
  }
  lease.renew = requested + renew;
  lease.rebind = requested + rebind;
  lease.expire = requested + length;
}

unsigned class_prefix(const Ip& ip) {
  const unsigned first = ip.data()[0];
  return first < 128 ? 8 : first < 192 ? 16 : 24;
}

std::vector<Route> routes_of(const Options& options, const std::optional<Ip>& gateway) {
  if (const auto found = options.find(option::kClasslessRoutes); found != options.end()) {
    auto routes = classless_routes(found->second);
    if (!routes.empty()) return routes;  // in place of all others (RFC 3442)
  }
  std::vector<Route> out;
  if (const auto found = options.find(option::kStaticRoutes); found != options.end()) {
    out = classful_routes(found->second);
  }
  if (gateway) {
    out.push_back({.dst = {Ip::any(netlink::Family::kIpv4), 0}, .gateway = gateway});
  }
  return out;
}

bool is_domain(const std::string& name) {
  constexpr std::size_t kMax = 253;
  return !name.empty() && name.size() <= kMax && name.front() != '.' && name.front() != '-' &&
         std::ranges::all_of(name, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '_' || c == '.';
         });
}

cni::Dns dns_of(const Options& options) {
  cni::Dns out;
  for (const Ip& server : ips_in(options, option::kDnsServers)) {
    if (!server.is_unspecified()) out.nameservers.push_back(server.str());
  }
  std::string domain = text_in(options, option::kDomainName);
  if (is_domain(domain)) out.domain = std::move(domain);
  if (const auto found = options.find(option::kDomainSearch); found != options.end()) {
    out.search = search_domains(found->second);
  }
  return out;
}

// Reads a name at `at`, and moves it behind. Pointers lead back only, so that it ends.
std::optional<std::string> name_at(View value, std::size_t& at) {
  std::string out;
  std::size_t from = at;
  std::size_t limit = value.size();
  bool moved = false;
  while (from < limit) {
    const std::size_t size = value[from];
    if (size == 0) {
      if (!moved) at = from + 1;
      return out;
    }
    if ((size & 0xc0) == 0xc0) {
      if (from + 1 >= value.size()) return std::nullopt;
      const std::size_t target = (size & 0x3f) << 8 | value[from + 1];
      if (!moved) at = from + 2;
      moved = true;
      if (target >= from) return std::nullopt;
      limit = from;
      from = target;
      continue;
    }
    if ((size & 0xc0) != 0 || from + 1 + size > limit) return std::nullopt;
    if (!out.empty()) out += '.';
    out.append(reinterpret_cast<const char*>(&value[from + 1]), size);
    from += 1 + size;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Route> classful_routes(View value) {
  std::vector<Route> out;
  for (; value.size() >= 8; value = value.subspan(8)) {
    const Ip destination = Ip::from_bytes(value.data(), 4);
    if (destination.is_unspecified()) continue;  // illegal (RFC 2132, section 5.8)
    out.push_back({.dst = Cidr{destination, class_prefix(destination)}.network(),
                   .gateway = Ip::from_bytes(&value[4], 4)});
  }
  return out;
}

std::vector<Route> classless_routes(View value) {
  std::vector<Route> out;
  while (!value.empty()) {
    const std::size_t prefix = value[0];
    const std::size_t significant = (prefix + 7) / 8;
    if (prefix > 32 || value.size() < 1 + significant + 4) return {};
    std::uint8_t bytes[4] = {};
    std::copy_n(value.begin() + 1, significant, bytes);
    Route route{.dst = Cidr::from_bytes(bytes, 4, static_cast<unsigned>(prefix)).network(),
                .gateway = Ip::from_bytes(&value[1 + significant], 4)};
    // A gateway of zeros means on-link, which the reference plugins' interfaces read as well.
    if (route.gateway->is_unspecified()) route.scope = kScopeLink;
    out.push_back(route);
    value = value.subspan(1 + significant + 4);
  }
  return out;
}

std::vector<std::string> search_domains(View value) {
  constexpr std::size_t kMax = 32;
  std::vector<std::string> out;
  for (std::size_t at = 0; at < value.size() && out.size() < kMax;) {
    auto name = name_at(value, at);
    if (!name) return out;
    if (is_domain(*name)) out.push_back(*std::move(name));
  }
  return out;
}

bool is_host_address(const Ip& ip) {
  return !ip.is_loopback() && !ip.is_multicast() && ip.data()[0] != 0 && ip.data()[0] < 240;
}

bool can_serve(const Ip& server, const Ip& client) {
  return is_host_address(server) && server != client;
}

Lease lease_of(const Message& ack, Time requested) {
  Lease out{.address = {ack.yiaddr, prefix_of(ack.options)}, .server = ack.siaddr};
  const Ip& own = out.address.ip;
  if (!is_host_address(own) || is_of_subnet(own, out.address)) {
    throw refusal(cat("DHCPACK gives the address ", out.address.str(), ", which no host can have"));
  }
  const auto server = ip_in(ack.options, option::kServerId);
  if (!server) throw refusal("DHCP option Server Identifier not found in DHCPACK");
  out.server = *server;
  if (!can_serve(out.server, own) || is_of_subnet(out.server, out.address)) {
    throw refusal(
        cat("DHCPACK has the server identifier ", out.server.str(), ", which no server can have"));
  }
  out.gateway = ip_in(ack.options, option::kRouters);
  if (out.gateway && out.gateway->is_unspecified()) out.gateway.reset();
  out.routes = routes_of(ack.options, out.gateway);
  out.dns = dns_of(ack.options);
  const auto mtu = ack.options.find(option::kMtu);
  if (mtu != ack.options.end() && mtu->second.size() == 2) {
    out.mtu = static_cast<unsigned>(mtu->second[0]) << 8 | mtu->second[1];
    if (out.mtu < 68) out.mtu = 0;  // RFC 2132, section 5.1
  }
  set_times(ack.options, requested, out);
  return out;
}

bool configures_alike(const Lease& left, const Lease& right) {
  return left.address == right.address && left.gateway == right.gateway &&
         left.routes == right.routes && left.mtu == right.mtu;
}

}  // namespace dhcp
