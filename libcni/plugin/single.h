#pragma once

#include <cstddef>

namespace cni {

struct Plugin;

/// main() of an executable of one plugin, whatever it is called: the first of plugins. The others
/// are those that it calls as suite.h has it. plugins lasts as long as the process.
int single_main(const Plugin* const* plugins, std::size_t count, int argc, char** argv);

}  // namespace cni
