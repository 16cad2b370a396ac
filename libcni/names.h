#pragma once

#include <string>
#include <string_view>

/// What may be a name. All of them become parts of file names, of rules' comments and of messages,
/// so runtime and plugin both check them, by the rules of the reference.
namespace cni {

/// [A-Za-z0-9][A-Za-z0-9_.-]*
/// \throws Error(kUnknownContainer) where it is empty, Error(kInvalidEnvironment).
void check_container_id(const std::string& id);

/// The same characters. \throws Error(kInvalidConfig).
void check_network_name(const std::string& name);

/// At most 15 bytes, no '/', ':' or white space, neither "." nor "..".
/// \throws Error(kInvalidEnvironment).
void check_ifname(const std::string& name);

}  // namespace cni
