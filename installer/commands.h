#pragma once

#include <array>

#include "libcni/plugin/suite.h"

namespace installer {

/// The commands of patchbay that are no plugin.
extern const std::array<cni::SuiteCommand, 3> kCommands;

}  // namespace installer
