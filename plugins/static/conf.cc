#include "plugins/static/conf.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "libcni/args.h"

namespace static_ipam {

namespace {

using cni::Address;
using cni::cat;
using cni::Cidr;
using cni::Code;
using cni::Error;
using cni::Ip;
using cni::Reader;

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

// A gateway goes to the addresses of CNI_ARGS whose network has it; ipam.addresses name their own.
void assign_gateway(std::vector<Address>& addresses, const std::string& text) {
  const auto gateway = Ip::parse(text);
  if (!gateway) {
    throw Error(Code::kInvalidEnvironment,
                cat("invalid gateway address: ", text, " (CNI_ARGS: GATEWAY)"));
  }
  for (Address& address : addresses) {
    if (address.cidr.contains(*gateway)) address.gateway = gateway;
  }
}

std::vector<Address> from_args(const std::string& text) {
  std::vector<Address> out;
  const auto args = cni::parse_args(text, {"IP", "GATEWAY"});
  if (const auto it = args.find("IP"); it != args.end() && !it->second.empty()) {
    for (const std::string& item : items_of(it->second)) {
      const auto cidr = Cidr::parse(item);
      if (!cidr) {
        throw Error(Code::kInvalidEnvironment,
                    cat("the 'ip' field is expected to be in CIDR notation, got: '", item,
                        "' (CNI_ARGS: IP)"));
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
  const std::string text = place.as_string();
  const auto cidr = Cidr::parse(text);
  if (cidr) return *cidr;
  throw Error(Code::kInvalidConfig, cat(complaint, ", got: '", text, "' (", place.path(), ")"));
}

std::vector<Address> from_ips(const Reader& list) {
  std::vector<Address> out;
  for (const Reader& place : list.elements()) {
    out.push_back({.cidr = cidr_at(place, "an entry in the 'ips' field is NOT in CIDR notation")});
  }
  return out;
}

std::vector<Address> from_config(const Reader& list) {
  std::vector<Address> out;
  for (const Reader& place : list.elements()) {
    Address address{.cidr = cidr_at(place["address"],
                                    "the 'address' field is expected to be in CIDR notation")};
    place.into("gateway", address.gateway);
    out.push_back(address);
  }
  return out;
}

// Every list is parsed, and may fail, even where another one wins; only ipam.addresses is not.
std::vector<Address> addresses_from(const cni::Request& request, const Reader& root) {
  auto by_args = from_args(request.args);
  auto by_args_cni = from_ips(root["args"]["cni"]["ips"]);
  auto by_runtime = from_ips(root["runtimeConfig"]["ips"]);
  if (!by_runtime.empty()) return by_runtime;
  if (!by_args_cni.empty()) return by_args_cni;
  auto out = from_config(root["ipam"]["addresses"]);
  out.insert(out.end(), by_args.begin(), by_args.end());
  return out;
}

}  // namespace

Conf Conf::parse(const cni::Request& request) {
  const Reader root = request.reader();
  const Reader ipam = root["ipam"];
  if (!ipam.present()) throw Error(Code::kInvalidConfig, "IPAM config missing 'ipam' key");
  Conf conf{.addresses = addresses_from(request, root),
            .routes = cni::routes_from(ipam["routes"]),
            .dns = cni::dns_from(ipam["dns"])};
  const auto v4 = std::count_if(conf.addresses.begin(), conf.addresses.end(),
                                [](const Address& address) { return address.cidr.ip.is_v4(); });
  const auto v6 = static_cast<std::ptrdiff_t>(conf.addresses.size()) - v4;
  if ((v4 > 1 || v6 > 1) && request.version < cni::Version::k0_3_0) {
    throw Error(Code::kInvalidConfig, cat("CNI version ", cni::str(request.version),
                                          " does not support more than 1 address per family"));
  }
  return conf;
}

}  // namespace static_ipam
