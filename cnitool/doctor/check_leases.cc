#include <algorithm>
#include <map>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"

// Addresses that the daemon of dhcp leases for pods.
namespace tool::doctor {

namespace {

std::string pod_of(const DhcpLease& lease) {
  return cat("'", lease.key.ifname, "' of container '", lease.key.container_id, "' in network '",
             lease.key.network, "'");
}

constexpr const char* kRestart = "systemctl restart cni-dhcp.service; dhcp leases";

/// The leases of a server that are renewed in time.
struct Fine {
  std::size_t count = 0;
  std::optional<std::int64_t> first;  ///< when the first one ends
};

}  // namespace

Findings check_leases(const Node& node) {
  Findings out;
  if (node.lacks_lease_daemon && !node.leases.empty()) {
    out.push_back({Level::kError, "the daemon of dhcp does not run",
                   cat("nobody renews the leases of ", node.leases.size(),
                       " interfaces: each loses its address at the end of its lease"),
                   kRestart});
  }
  std::map<std::string, Fine> fine;
  for (const DhcpLease& one : node.leases) {
    if (one.address.empty()) {
      out.push_back(
          {Level::kError, cat("no DHCP lease for ", pod_of(one)),
           "no server renewed it: the address was removed from the pod, and another one is "
           "asked for",
           kRestart});
    } else if (one.expire && *one.expire < 0) {
      out.push_back({Level::kError,
                     cat("the DHCP lease of ", one.address, " for ", pod_of(one), " ended ",
                         -*one.expire, " s ago"),
                     "no daemon renewed it, and the pod has no address", kRestart});
    } else if (one.rebind && *one.rebind < 0) {
      out.push_back({Level::kWarning,
                     cat("the DHCP lease of ", one.address, " for ", pod_of(one), " ends in ",
                         one.expire.value_or(0), " s"),
                     cat("server ", one.server,
                         " does not answer, or the daemon does not run; the pod loses the address"),
                     kRestart});
    } else {
      Fine& of = fine[one.server];
      ++of.count;
      if (one.expire) of.first = std::min(of.first.value_or(*one.expire), *one.expire);
    }
  }
  for (const auto& [server, of] : fine) {
    out.push_back({Level::kNote, cat(of.count, " DHCP leases of server ", server),
                   of.first ? cat("the first one ends in ", *of.first,
                                  " s, and is renewed before; dhcp leases lists them")
                            : "none of them ends"});
  }
  return out;
}

}  // namespace tool::doctor
