#include "plugins/dhcp/daemon/daemon_lock.h"

#include <filesystem>

#include "libcni/common/error.h"
#include "libcni/common/lock.h"
#include "plugins/names/state.h"

namespace dhcp {

using cni::cat;

netlink::Fd lock_for_daemon(const std::string& path, std::string_view use) {
  constexpr std::chrono::seconds kLimit{1};  // for a daemon that is about to end
  const auto file = std::filesystem::absolute(path).lexically_normal();
  const cni::Dir dir = cni::Dir::create(file.parent_path());
  try {
    return cni::take_lock(dir, kLimit, cat(file.filename().string(), names::kLockSuffix));
  } catch (const cni::Error& e) {
    throw cni::Error(cni::Code::kInternal,
                     cat(use, " '", path, "': another daemon does: ", e.what()));
  }
}

}  // namespace dhcp
