#pragma once

#include <string>
#include <string_view>

namespace cni {

/// The state of an attachment as seen from outside, without its plugins.
enum class Liveness {
  kAlive,        ///< the interface is in the namespace
  kNoNamespace,  ///< nothing is at the path
  kNoInterface,  ///< the namespace has no such interface
  kUnknown,      ///< it may be hidden from this process (NetNs::may_hide()), or closed to it
};

Liveness liveness_of(const std::string& netns, const std::string& ifname);

/// "alive", "no namespace", "no interface", "unknown".
std::string_view str(Liveness liveness);

}  // namespace cni
