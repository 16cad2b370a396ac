#pragma once

#include <string>
#include <string_view>

/// Rules for names. Names become parts of file names, of rules' comments and of messages, so
/// runtime and plugin both check them, by the rules of the reference plugins.
namespace cni {

/// The complaint about a NUL byte in a config: the kernel would cut a name or a path there.
inline constexpr const char* kNoNul = "expected a string without NUL bytes";

/// [A-Za-z0-9][A-Za-z0-9_.-]*
/// \throws Error(kUnknownContainer) where it is empty, Error(kInvalidEnvironment).
void check_container_id(const std::string& id);

/// The same characters.
bool is_network_name(const std::string& name);
/// \throws Error(kInvalidConfig) for another name.
void check_network_name(const std::string& name);

/// Whether a link can have exactly this name: 1 to 15 bytes, no '/', ':', white space or NUL,
/// neither "." nor ".." (dev_valid_name() in net/core/dev.c). Nor '%': the kernel takes it for a
/// template, and makes another link of each call with "cni%d" (dev_alloc_name()).
bool is_link_name(std::string_view name);

/// The same for CNI_IFNAME, and no white space of Unicode. \throws Error(kInvalidEnvironment).
void check_ifname(const std::string& name);

/// Whether a plugin's type, or the name of its file, stands for that plugin: "bridge", a copy
/// "cnv-bridge", or "bridge.real" as whoever wraps it may call it.
bool stands_for(std::string_view type, std::string_view plugin) noexcept;

/// A pod by K8S_POD_NAMESPACE and K8S_POD_NAME of CNI_ARGS: "NAMESPACE/NAME", "NAME" where there is
/// no namespace, as for podman's containers, or "" where there is no name.
std::string pod_name(std::string_view of_namespace, std::string_view name);

}  // namespace cni
