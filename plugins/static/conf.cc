#include "plugins/static/conf.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "libcni/config/args.h"
#include "libcni/config/common_keys.h"
#include "plugins/static/facts.h"

namespace static_ipam {

namespace {

using cni::Address;
using cni::cat;
using cni::Cidr;
using cni::Code;
using cni::Error;
using cni::Ip;
using cni::Reader;
using cni::Type;

std::vector<std::string> items_of(std::string_view list) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  std::vector<std::string> out;
  for (bool more = true; more;) {
    const auto end = list.find(',');
    std::string_view item = list.substr(0, end);
    more = end != std::string_view::npos;
    if (more) list.remove_prefix(end + 1);
    item.remove_prefix(std::min(item.find_first_not_of(kBlank), item.size()));
    out.emplace_back(item.substr(0, item.find_last_not_of(kBlank) + 1));
  }
  return out;
}

// Sets it in addresses of CNI_ARGS alone; entries of ipam.addresses have a gateway key.
void assign_gateway(std::vector<Address>& addresses, const std::string& text) {
  const auto gateway = Ip::parse(text);
  if (!gateway) {
    throw Error(Code::kInvalidEnvironment, cat("invalid gateway address: ", text),
                "CNI_ARGS: GATEWAY");
  }
  for (Address& address : addresses) {
    if (address.cidr.contains(*gateway)) address.gateway = gateway;
  }
}

constexpr cni::Key kArgs[] = {
    {.name = "IP",
     .description = "addresses with prefix length, separated by commas; added after those of "
                    "`ipam.addresses`"},
    {.name = "GATEWAY",
     .description =
         "gateways, separated by commas; each is set on the addresses of `IP` whose subnet "
         "contains it; the last match wins"}};

std::vector<Address> from_args(const std::string& text) {
  std::vector<Address> out;
  const auto args = cni::parse_args(text, kArgs);
  if (const auto it = args.find("IP"); it != args.end() && !it->second.empty()) {
    for (const std::string& item : items_of(it->second)) {
      const auto cidr = Cidr::parse(item);
      if (!cidr) {
        throw Error(Code::kInvalidEnvironment,
                    cat("the 'ip' field is expected to be in CIDR notation, got: '", item, "'"),
                    "CNI_ARGS: IP");
      }
      out.push_back({.cidr = *cidr});
    }
  }
  if (const auto it = args.find("GATEWAY"); it != args.end() && !it->second.empty()) {
    for (const std::string& item : items_of(it->second)) assign_gateway(out, item);
  }
  return out;
}

Cidr cidr_at(const Reader& place, std::string_view complaint) {
  const std::string text = place.present() ? place.as_string() : "";
  const auto cidr = Cidr::parse(text);
  if (cidr) return *cidr;
  place.refuse(cat(complaint, ", got: '", text, "'"), "expected an address with prefix length");
}

// The config as it is written, before the order of precedence is applied.
struct Given {
  std::vector<Address> by_config, by_args, by_runtime;
  std::vector<cni::Route> routes;
  cni::Dns dns;
};

std::vector<Address> from_ips(const Reader& list) {
  std::vector<Address> out;
  for (const Reader& place : list.elements()) {
    out.push_back({.cidr = cidr_at(place, "an entry in the 'ips' field is NOT in CIDR notation")});
  }
  return out;
}

void read_ips_of_args(const Reader& list, Given& given) { given.by_args = from_ips(list); }
void read_ips_of_runtime(const Reader& list, Given& given) { given.by_runtime = from_ips(list); }

void read_address(const Reader& place, Address& address) {
  address.cidr = cidr_at(place, "the 'address' field is expected to be in CIDR notation");
}

constexpr auto kAddressKeys = cni::keys(
    cni::custom<read_address>({.name = "address",
                               .description = "address with prefix length; host bits are kept",
                               .type = Type::kCidr,
                               .required = true}),
    cni::key<&Address::gateway>({.name = "gateway", .description = "returned with the address"}));

// The other lists are validated even if another one replaces them; this one is not.
void read_addresses(const Reader& list, Given& given) {
  if (!given.by_args.empty() || !given.by_runtime.empty()) return;
  for (const Reader& place : list.elements()) {
    cni::read_keys(place, kAddressKeys, given.by_config.emplace_back());
  }
}

constexpr auto kArgsCniKeys = cni::keys(cni::custom<read_ips_of_args>(
    {.name = "ips",
     .description = "addresses with prefix length; replace those of `ipam` and `CNI_ARGS`",
     .type = Type::kCidr,
     .lists = 1}));
constexpr auto kArgsKeys = cni::keys(cni::part<kArgsCniKeys>({.name = "cni", .open = true}));

constexpr auto kRuntimeKeys = cni::keys(cni::custom<read_ips_of_runtime>(
    {.name = "ips",
     .description = "addresses with prefix length; replace all others",
     .type = Type::kCidr,
     .lists = 1}));

constexpr auto kIpamKeys = cni::keys(
    cni::described<Given>({.name = "type"}),
    cni::custom<read_addresses>({.name = "addresses",
                                 .description = "addresses of the container interface",
                                 .type = Type::kObject,
                                 .lists = 1,
                                 .keys = kAddressKeys}),
    cni::ipam_routes_key<&Given::routes>(),
    cni::part<cni::kDnsKeys, &Given::dns>(
        {.name = "dns",
         .description = "returned in the result: `nameservers`, `domain`, `search`, `options`",
         .folded = true}));

constexpr auto kKeys =
    cni::keys(cni::part<kArgsKeys>({.name = "args", .open = true}),
              cni::part<kRuntimeKeys>({.name = "runtimeConfig", .open = true}),
              cni::part<kIpamKeys>({.name = "ipam", .required = true}));  // after the two

std::vector<Address> addresses_of(const Given& given, std::vector<Address> by_cni_args) {
  if (!given.by_runtime.empty()) return given.by_runtime;
  if (!given.by_args.empty()) return given.by_args;
  auto out = given.by_config;
  out.insert(out.end(), by_cni_args.begin(), by_cni_args.end());
  return out;
}

}  // namespace

constinit const cni::Manual kManual{
    .purpose = "is an IPAM plugin: returns the addresses, routes and DNS of the config",
    .keys = kKeys,
    .args = kArgs,
    .facts = kFacts};

Conf Conf::parse(const cni::Request& request) {
  const Reader root = request.reader();
  const Reader ipam = root["ipam"];
  if (!ipam.present()) ipam.refuse("IPAM config missing 'ipam' key");
  const auto by_cni_args = from_args(request.args);
  Given given;
  cni::read_keys(root, kKeys, given);
  Conf conf{.addresses = addresses_of(given, by_cni_args),
            .routes = std::move(given.routes),
            .dns = std::move(given.dns)};
  const auto v4 = std::ranges::count_if(
      conf.addresses, [](const Address& address) { return address.cidr.ip.is_v4(); });
  const auto v6 = static_cast<std::ptrdiff_t>(conf.addresses.size()) - v4;
  cni::require_version_of(request.version, v4, v6);
  return conf;
}

}  // namespace static_ipam
