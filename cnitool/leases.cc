#include "cnitool/leases.h"

#include <algorithm>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>

#include "cnitool/output.h"
#include "libcni/common/dir.h"
#include "libcni/config/json.h"
#include "netlink/sysctl.h"
#include "plugins/names/state.h"

namespace tool {

// Times in it are milliseconds since the boot (CLOCK_BOOTTIME).
std::optional<DhcpLease> lease_in(const cni::Reader& root) {
  if (root["bootID"].as_string() != netlink::read_sysctl("kernel/random/boot_id")) {
    return std::nullopt;
  }
  DhcpLease out{.key = {root["network"].as_string(), root["containerID"].as_string(),
                        root["ifname"].as_string()}};
  const cni::Reader lease = root["lease"];
  if (!lease.present()) return out;
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  const auto from_now = [&](const char* key) -> std::optional<std::int64_t> {
    const cni::Reader time = lease[key];
    if (!time.present()) return std::nullopt;
    return time.as_int(0, std::numeric_limits<std::int64_t>::max()) / 1000 - now.tv_sec;
  };
  out.address = lease["address"].as_string();
  out.server = lease["server"].as_string();
  out.rebind = from_now("rebind");
  out.expire = from_now("expire");
  return out;
}

std::optional<DhcpLease> lease_of(const cni::AttachmentKey& key) try {
  const auto dir = cni::Dir::open(names::kDhcpStateDir);
  if (!dir) return std::nullopt;
  const std::string name = key.tag();
  const auto file = dir->read(name);
  if (!file) return std::nullopt;
  const nlohmann::json doc = cni::parse_json(file->content, name);
  return lease_in(cni::Reader(doc));
} catch (const cni::Error&) {
  return std::nullopt;
} catch (const netlink::Error&) {
  return std::nullopt;
}

std::string describe(const DhcpLease& lease) {
  if (lease.address.empty()) return "was lost; another one is asked for";
  return cat("of ", lease.server,
             lease.expire ? cat(", ends in ", std::max<std::int64_t>(*lease.expire, 0), " s")
                          : ", does not end");
}

}  // namespace tool
