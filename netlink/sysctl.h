#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace netlink {

/// Kernel settings under /proc/sys, of the network namespace that the thread is in. Keys are given
/// with slashes ("net/ipv6/conf/eth0.5/accept_ra"), so that dots in link names stay what they are.

/// The value without its newline; nothing where the key does not exist (IPv6 compiled out or off).
/// \throws Error otherwise.
std::optional<std::string> read_sysctl(const std::string& key);

/// \throws Error (operation "set KEY=VALUE").
void write_sysctl(const std::string& key, std::string_view value);

/// Writes unless the value is there already, so that a read-only /proc/sys with the right value
/// will do. False where the key does not exist. \throws Error where it cannot be written.
bool ensure_sysctl(const std::string& key, std::string_view value);

/// As write_sysctl, for settings that are a wish: a failure is ignored.
void try_write_sysctl(const std::string& key, std::string_view value) noexcept;

/// As ensure_sysctl, for settings that are a wish: a failure is ignored. True if the value holds.
bool try_sysctl(const std::string& key, std::string_view value) noexcept;

}  // namespace netlink
