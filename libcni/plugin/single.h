#pragma once

#include <span>
#include <string_view>

namespace cni {

struct Plugin;

/// What an executable of one plugin has, and what it knows of the other plugins of its build.
/// Lasts as long as the process.
struct Single {
  std::span<const Plugin* const> plugins;    ///< itself, and those that it calls as suite.h has it
  std::span<const std::string_view> ipam;    ///< the names of all IPAM plugins
  std::span<const std::string_view> others;  ///< of all others
};

/// main() of such an executable, whatever it is called.
int single_main(const Single& single, int argc, char** argv);

}  // namespace cni
