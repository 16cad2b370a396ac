#pragma once

#include <optional>
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
/// A range as a config has it, before its defaults are applied.
struct WrittenRange {
  std::optional<Cidr> subnet;
  std::optional<Ip> start, end, gateway;

  /// The range at place, whose subnet is known. \throws cni::Error(kInvalidConfig).
  Range whole(const cni::Reader& place) const;
};
inline constexpr cni::Key kRangeStart{.name = "rangeStart",
                                      .description = "first address to allocate, inclusive",
                                      .default_text = "network + 1"};
inline constexpr cni::Key kRangeEnd{
    .name = "rangeEnd",
    .description = "last address to allocate, inclusive",
    .default_text = "IPv4: broadcast - 1; IPv6: last of the subnet"};
inline constexpr cni::Key kGateway{.name = "gateway",
                                   .description =
                                       "returned with the address, never allocated from "
                                       "this range; may lie outside the subnet",
                                   .default_text = "network + 1"};
/// `ipam.ranges`, and others of its kind, whose ranges have these keys.
constexpr cni::Key range_sets(cni::KeyList range_keys) {
  return {.name = "ranges",
          .description =
              "range sets: an attachment gets **one address from each set**; the ranges "
              "of a set form one pool",
          .type = cni::Type::kObject,
          .lists = 2,
          .keys = range_keys};
}
/// A key of `ipam` that is one of a range in the short form.
constexpr cni::Key as_in_ranges(const char* name, cni::Type type) {
  return {.name = name, .description = "as in `ipam.ranges`", .type = type};
}

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

/// \throws cni::Error(kInvalidConfig): there is no `ipam`.
void require_ipam(const cni::Reader& root);
/// \throws cni::Error(kInvalidConfig): there are no sets.
void require_ranges(const Conf& conf);
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
