#include <algorithm>
#include <limits>
#include <map>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/pods.h"
#include "cnitool/leases.h"
#include "cnitool/output.h"

// Addresses that the daemon of dhcp leases for pods.
namespace tool::doctor {

namespace {

constexpr const char* kRestart = "systemctl restart cni-dhcp.service; dhcp leases";

// The fault of a lease; an empty text: it has none.
Finding finding_of(const DhcpLease& one) {
  const std::string pod = cat("'", one.key.ifname, "' of container '", one.key.container_id,
                              "' in network '", one.key.network, "'");
  const std::string lease = cat("the DHCP lease of ", one.address, " for ", pod);
  if (one.address.empty()) {
    return {Level::kError,
            cat("no DHCP lease for ", pod),
            "no server renewed it: the address was removed from the pod, and another one is asked "
            "for",
            kRestart,
            {one.key.network}};
  }
  if (one.expire && *one.expire < 0) {
    return {Level::kError,
            cat(lease, " ended ", -*one.expire, " s ago"),
            "no daemon renewed it, and the pod has no address",
            kRestart,
            {one.key.network}};
  }
  if (!one.rebind || *one.rebind >= 0) return {};
  return {Level::kWarning,
          cat(lease, " ends in ", one.expire.value_or(0), " s"),
          cat("server ", one.server,
              " does not answer, or the daemon does not run; the pod loses the address"),
          kRestart,
          {one.key.network}};
}

}  // namespace

bool is_lost(const Node& node, const cni::AttachmentKey& key) {
  const DhcpLease* const lease = find_by(node.leases, &DhcpLease::key, key);
  return lease != nullptr && (node.lacks_lease_daemon || finding_of(*lease).level == Level::kError);
}

Findings check_leases(const Node& node) {
  Findings out;
  if (node.lacks_lease_daemon) {
    out.push_back({Level::kError, "the daemon of dhcp does not run",
                   cat("nobody renews ", counted(node.leases.size(), "lease"),
                       ": an interface loses its address at the end of its lease"),
                   kRestart});
  }
  std::map<std::string, std::vector<std::int64_t>> ends;  // of leases without a finding, by server
  for (const DhcpLease& one : node.leases) {
    constexpr auto kNever = std::numeric_limits<std::int64_t>::max();
    Finding finding = finding_of(one);
    if (finding.what.empty()) {
      ends[one.server].push_back(one.expire.value_or(kNever));
    } else {
      out.push_back(std::move(finding));
    }
  }
  for (const auto& [server, all] : ends) {
    const std::int64_t first = *std::ranges::min_element(all);
    out.push_back({Level::kNote, cat(counted(all.size(), "DHCP lease"), " of server ", server),
                   first == std::numeric_limits<std::int64_t>::max()
                       ? "no lease ends"
                       : cat("the first one ends in ", first,
                             " s, and is renewed before; dhcp leases lists them")});
  }
  return out;
}

}  // namespace tool::doctor
