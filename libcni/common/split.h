#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace cni {

/// The pieces of text between separators, each of which is one character of that list; none is
/// empty. Without streams, whose locales every call would load.
inline std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(separators), text.size());
    if (end != 0) out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace cni
