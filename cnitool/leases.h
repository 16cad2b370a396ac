#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libcni/common/attachment.h"

/// The state files of the daemon of dhcp.
namespace tool {

/// A lease, as its file says. Times are seconds from now; absent: never.
struct DhcpLease {
  cni::AttachmentKey key;
  std::string address = {};  ///< empty: it was lost
  std::string server = {};
  std::optional<std::int64_t> rebind = {}, expire = {};
};

/// All of this boot whose file is readable. \throws netlink::Error.
std::vector<DhcpLease> dhcp_leases();

/// The lease of an attachment, from its file; nothing without a readable one.
std::optional<DhcpLease> lease_of(const cni::AttachmentKey& key);

/// "of 10.1.0.1, ends in 3512 s".
std::string describe(const DhcpLease& lease);

}  // namespace tool
