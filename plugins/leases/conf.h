#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libcni/config/keys.h"
#include "libcni/plugin/request.h"
#include "plugins/leases/cursor.h"
#include "plugins/leases/neighbours.h"

/// The engine of IPAM plugins whose leases are files on the node.
namespace leases {

/// The requests of the config, CNI_ARGS, args and runtimeConfig.
struct Conf {
  std::string data_dir;
  std::vector<RangeSet> sets;  ///< each gives out one address
  std::vector<Ip> requested;   ///< CNI_ARGS, then args.cni.ips, then runtimeConfig.ips; no twins
  std::vector<cni::Route> routes;
  std::string resolv_conf;  ///< path; empty is none
  Segment segment;          ///< of the network's pods
};

inline constexpr cni::Key kRequestArgs[] = {{.name = "IP",
                                             .description = "requested address, before all others",
                                             .type = cni::Type::kIpOrCidr}};
/// Adds the address in CNI_ARGS. \throws cni::Error(kInvalidEnvironment).
void read_request_args(const std::string& text, Conf& conf);
/// Adds those of a list of addresses, with or without prefix lengths. \throws cni::Error.
void read_requested(const cni::Reader& list, Conf& conf);

/// `args`.
inline constexpr auto kArgsCniKeys =
    cni::keys(cni::custom<read_requested>({.name = "ips",
                                           .description = "requested addresses; a prefix length is "
                                                          "ignored",
                                           .type = cni::Type::kIpOrCidr,
                                           .lists = 1}));
inline constexpr auto kArgsKeys = cni::keys(cni::part<kArgsCniKeys>({.name = "cni", .open = true}));

/// `runtimeConfig.ips`.
inline constexpr cni::Key kRuntimeIps{.name = "ips",
                                      .description = "requested addresses, after those of `args`",
                                      .type = cni::Type::kIpOrCidr,
                                      .lists = 1};
/// `ipam.dataDir`.
inline constexpr cni::Key kDataDir{
    .name = "dataDir",
    .description = "parent directory of the network's lease directory",
    .default_text = "`/var/lib/cni/networks`"};
/// `ipam.resolvConf`.
inline constexpr cni::Key kResolvConf{
    .name = "resolvConf",
    .description =
        "path of a resolv.conf(5) file; its `nameserver`, `domain`, `search` and "
        "`options` are returned as DNS"};

/// \throws cni::Error(kInvalidConfig) where two sets have an address in common, or results of the
/// version cannot have one of each.
void check_together(const std::vector<RangeSet>& sets, cni::Version version);

/// ipam.dataDir or its default; looks at nothing else. \throws cni::Error(kInvalidConfig).
std::string data_dir_from(const cni::Request& request);

/// The nameserver, domain, search and options lines of a resolv.conf(5).
cni::Dns parse_resolv_conf(std::string_view text);
/// Of the file; none without a path. \throws cni::Error(kInvalidConfig): it does not exist.
cni::Dns read_resolv_conf(const std::string& path);

}  // namespace leases
