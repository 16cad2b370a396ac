#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "libcni/config/common_keys.h"

/// Keys that interface plugins share about their IPAM plugin's result: addresses, routes, DNS. Each
/// is for a Conf with the member that it fills.
namespace plugins {

/// "dns" of an interface plugin's config. Nothing where neither a list of it, be it empty, nor a
/// domain is given: then the IPAM plugin's DNS stays.
std::optional<cni::Dns> dns_override(const cni::Reader& place);

/// The DNS, in which each member that is present at the place replaces the one before.
cni::Dns merged(cni::Dns dns, const cni::Reader& place);

/// `ipam`, into std::string ipam_type; empty where the config has none.
template <class Conf>
inline constexpr auto kIpamKeys = cni::keys(cni::key<&Conf::ipam_type>(
    {.name = "type",
     .description = "name of the IPAM plugin, which reads the other keys of `ipam`"}));
template <class Conf>
constexpr auto ipam_key() {
  return cni::part<kIpamKeys<Conf>>(
      {.name = "ipam",
       .description = "`type` names the IPAM plugin, which reads the other keys",
       .open = true,
       .folded = true});
}

/// `dns`, into std::optional<cni::Dns> dns.
template <class Conf>
void read_dns(const cni::Reader& place, Conf& conf) {
  conf.dns = dns_override(place);
}
inline constexpr const char* kDnsOverride =
    "`nameservers`, `domain`, `search`, `options`: replaces the DNS of the IPAM plugin's result "
    "entirely";
/// The description of `dns` for a plugin that passes the IPAM plugin's over, as the reference
/// plugin does.
inline constexpr const char* kDnsOfConfig =
    "`nameservers`, `domain`, `search`, `options` of the result. The DNS of the IPAM plugin's "
    "result is not used";
template <class Conf>
constexpr auto dns_key(const char* description = kDnsOverride) {
  return cni::custom<read_dns<Conf>>({.name = "dns",
                                      .description = description,
                                      .type = cni::Type::kObject,
                                      .keys = cni::kDnsKeys,
                                      .folded = true});
}

/// `dnsFromIPAM`, into bool dns_from_ipam, for a plugin with kDnsOfConfig.
template <class Conf>
constexpr auto dns_from_ipam_key() {
  return cni::key<&Conf::dns_from_ipam>(
      {.name = "dnsFromIPAM",
       .description = "the DNS of the result is that of the IPAM plugin's result, in which each "
                      "member that `dns` has replaces the IPAM plugin's. Needs `ipam`"});
}
/// The DNS of such a plugin's result.
template <class Conf>
cni::Dns dns_of(const cni::Reader& root, const Conf& conf, cni::Dns of_ipam) {
  return conf.dns_from_ipam ? merged(std::move(of_ipam), root["dns"])
                            : conf.dns.value_or(cni::Dns{});
}

/// `ignoreDefaultRoute`, into bool ignore_default_route.
template <class Conf>
constexpr auto ignore_default_route_key() {
  return cni::key<&Conf::ignore_default_route>(
      {.name = "ignoreDefaultRoute",
       .description = "leaves the default routes out that the IPAM plugin returns, and those of "
                      "router advertisements: another interface of the pod has its way out. Needs "
                      "`ipam`"});
}

/// \throws cni::Error(kInvalidConfig) for a key that is true and needs `ipam`, which is missing.
template <class Conf>
void refuse_without_ipam(const cni::Reader& root, const Conf& conf,
                         std::initializer_list<const char*> keys = {"dnsFromIPAM",
                                                                    "ignoreDefaultRoute"}) {
  if (!conf.ipam_type.empty()) return;
  for (const char* const key : keys) {
    const cni::Reader place = root[key];
    if (place.present() && place.as_bool()) {
      place.fail("has no effect without ipam, expected an IPAM plugin");
    }
  }
}

}  // namespace plugins
