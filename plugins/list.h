#pragma once

#include <span>

#include "libcni/plugin/plugin.h"

namespace plugins {

/// All plugins, in the order of plugins/CMakeLists.txt (library plugins_list).
extern const std::span<const cni::Plugin* const> kAll;

}  // namespace plugins
