#pragma once

#include <string>
#include <string_view>

namespace cni {

/// The state of an attachment as seen from outside, without its plugins.
enum class Liveness {
  kAlive,        ///< the interface is in the namespace
  kNoNamespace,  ///< the path is empty, not there, or no network namespace any more
  kNoInterface,  ///< the namespace has no such interface
  kUnknown,      ///< this process may not look into the namespace
};

Liveness liveness_of(const std::string& netns, const std::string& ifname);

/// "alive", "no namespace", "no interface", "unknown".
std::string_view str(Liveness liveness);

}  // namespace cni
