#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libcni/config/key.h"
#include "libcni/plugin/request.h"
#include "plugins/host-local/cursor.h"
#include "plugins/host-local/neighbours.h"

namespace host_local {

extern const cni::Manual kManual;

/// What becomes of ranges that are written as `usePodCidr`.
enum class PodCidrs { kRead, kSkip };

/// The requests of the config, CNI_ARGS, args and runtimeConfig.
struct Conf {
  std::string data_dir;
  std::vector<RangeSet> sets;  ///< runtimeConfig.ipRanges, then ipam.subnet, then ipam.ranges
  std::vector<Ip> requested;   ///< CNI_ARGS, then args.cni.ips, then runtimeConfig.ips; no twins
  std::vector<cni::Route> routes;
  std::string resolv_conf;  ///< path; empty is none
  /// Path of the file with the node's pod CIDRs; empty is none. See cni::pod_cidr_in().
  std::string pod_cidr_file;
  PodCidrs pod_cidrs = PodCidrs::kRead;
  bool lacks_ranges = false;  ///< of those, as they were skipped
  Segment segment;            ///< of the network's pods

  /// \throws cni::Error: 7 with the JSON path, 4 for CNI_ARGS, 11 where the node's pod CIDR is
  /// wanted and not known yet.
  static Conf parse(const cni::Request& request, PodCidrs pod_cidrs = PodCidrs::kRead);
  /// The same where no attachment is known: ranges need not be there yet where the capability
  /// ipRanges asks the runtime for them. \throws as parse().
  static Conf parse_without_attachment(const cni::Request& request, PodCidrs pod_cidrs);
};

/// ipam.dataDir or its default; looks at nothing else. \throws cni::Error(kInvalidConfig).
std::string data_dir_from(const cni::Request& request);

/// The nameserver, domain, search and options lines of a resolv.conf(5).
cni::Dns parse_resolv_conf(std::string_view text);

}  // namespace host_local
