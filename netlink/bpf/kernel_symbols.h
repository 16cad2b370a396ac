#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace netlink::bpf {

/// The functions of the kernel in which these addresses are, by a file as /proc/kallsyms, without
/// what the compiler adds to their names (".isra.0"). Empty names: unknown, as for all where
/// kernel.kptr_restrict hides addresses.
std::map<std::uint64_t, std::string> kernel_symbols(const std::vector<std::uint64_t>& addresses,
                                                    const std::string& file = "/proc/kallsyms");

/// Whether that file shows where functions are.
bool shows_kernel_symbols(const std::string& file = "/proc/kallsyms");

}  // namespace netlink::bpf
