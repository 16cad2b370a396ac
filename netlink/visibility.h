#pragma once

#include <string>

#include "netlink/netns.h"

/// What this process can see of the kernel's other processes and namespaces.
namespace netlink {

/// Whether /proc has all processes of the kernel, and not those of a PID namespace alone.
bool sees_all_processes() noexcept;

/// Whether a folder of namespaces, as /run/netns, may be a container's own instead of the node's:
/// this process is in a PID namespace, and the folder is absent, or empty and no mount.
bool may_be_own(const std::string& folder) noexcept;

/// Whether the namespace is of this process's user namespace. Root in a container without
/// CAP_SYS_ADMIN makes none that is.
bool is_of_own_users(const NetNs& ns) noexcept;

}  // namespace netlink
