#pragma once

#include <optional>
#include <string>

namespace installer {

/// The note about a folder that install makes: whether one of a similar name exists, and what
/// prints where the runtimes of the node look. Nothing: it exists.
std::optional<std::string> text_of_new(const std::string& dir);

}  // namespace installer
