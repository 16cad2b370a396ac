#pragma once

#include <string>
#include <string_view>

/// Ways out of a refusal that the kernel's own sentence does not name.
namespace netlink {

/// "load the module 'ipvlan': modprobe ipvlan (CONFIG_IPVLAN)".
std::string load_hint(std::string_view module);

/// How to raise the limit that the errno is about; empty for other errors.
std::string_view limit_hint(int error);

}  // namespace netlink
