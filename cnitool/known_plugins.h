#pragma once

#include <string_view>

#include "libcni/config/facts.h"

/// What is known of plugins by their type, without a process: of those of this project, and so of
/// the reference plugins of the same names.
namespace tool {

/// The facts of the plugin that the type stands for; none of another one.
cni::Facts facts_of(std::string_view type) noexcept;

/// The first plugin with that fact.
std::string_view type_with(cni::Fact fact) noexcept;

}  // namespace tool
