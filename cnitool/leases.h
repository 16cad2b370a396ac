#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "libcni/config/conf.h"
#include "libcni/runtime/cache.h"

/// The state files of the daemon of dhcp.
namespace tool {

/// A lease, as its file says. Times are seconds from now; absent: never.
struct DhcpLease {
  cni::AttachmentKey key;
  std::string address = {};  ///< empty: it was lost
  std::string server = {};
  std::optional<std::int64_t> rebind = {}, expire = {};
};

/// The lease in a file's content; nothing for that of another boot. \throws cni::Error for another
/// content.
std::optional<DhcpLease> lease_in(const cni::Reader& root);

/// The lease of an attachment, from its file; nothing without a readable one.
std::optional<DhcpLease> lease_of(const cni::AttachmentKey& key);

/// "of 10.1.0.1, ends in 3512 s".
std::string describe(const DhcpLease& lease);

}  // namespace tool
