#include "libcni/plugin/node_tool.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace cni {

std::optional<std::string> find_node_tool(std::string_view name) {
  const char* const path = ::secure_getenv("PATH");
  for (const auto& directory : split_path(cat(path == nullptr ? "" : path, ":/usr/sbin:/sbin"))) {
    // A relative one would let the current directory decide what runs as root.
    std::string file = cat(directory, "/", name);
    if (directory.starts_with('/') && ::access(file.c_str(), X_OK) == 0) return file;
  }
  return std::nullopt;
}

Outcome run_node_tool(const std::string& file, const std::vector<std::string>& arguments,
                      std::string_view input) {
  constexpr std::chrono::seconds kLimit{30};
  return execute({.file = file, .arguments = arguments, .env = current_environment()}, input,
                 kLimit);
}

Error tool_error(Code code, const std::string& file, const Outcome& outcome) {
  std::string text = outcome.err.substr(0, outcome.err.find_last_not_of('\n') + 1);
  std::ranges::replace(text, '\n', ' ');
  return {code, cat("run '", file, "': ", text)};
}

}  // namespace cni
