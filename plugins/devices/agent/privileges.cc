#include "plugins/devices/agent/privileges.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "netlink/types/error.h"
#include "plugins/devices/agent/log.h"

namespace devices {

void drop_capabilities() noexcept {
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  for (unsigned long one = 0; ::prctl(PR_CAPBSET_READ, one, 0, 0, 0) >= 0; ++one) {
    ::prctl(PR_CAPBSET_DROP, one, 0, 0, 0);
  }
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct none[2] = {};
  if (::syscall(SYS_capset, &header, none) != 0) {
    log(Level::kWarning, "drop capabilities", {.error = netlink::errno_text(errno)});
  }
}

}  // namespace devices
