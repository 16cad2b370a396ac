#pragma once

#include <span>
#include <string_view>

#include "libcni/config/facts.h"

namespace plugins {

struct NamedFacts {
  std::string_view type;
  cni::Facts facts;
};

/// The facts of all plugins, as their Manuals state them, in the order of plugins/CMakeLists.txt
/// (library plugin_facts).
extern const std::span<const NamedFacts> kFacts;

}  // namespace plugins
