#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/plugin/invoke.h"

/// Programs of the node that plugins run: iptables-restore, iptables-save, nft.
namespace cni {

/// The absolute path of a program in PATH, /usr/sbin or /sbin; nothing where it is in none of them.
std::optional<std::string> find_node_tool(std::string_view name);

/// Runs it with input on its stdin and this process's environment, for at most 30 s.
/// \throws as execute().
Outcome run_node_tool(const std::string& file, const std::vector<std::string>& arguments,
                      std::string_view input);

/// "run 'FILE': " and what the program printed to stderr, on one line.
Error tool_error(Code code, const std::string& file, const Outcome& outcome);

}  // namespace cni
