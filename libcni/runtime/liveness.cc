#include "libcni/runtime/liveness.h"

#include <net/if.h>

#include <cerrno>

#include "netlink/netns.h"
#include "netlink/types/error.h"

namespace cni {

Liveness liveness_of(const std::string& netns, const std::string& ifname) try {
  const auto there = netlink::NetNs::find(netns);
  if (!there) {
    return netlink::NetNs::may_hide(netns) ? Liveness::kUnknown : Liveness::kNoNamespace;
  }
  const netlink::NetNs::Entered inside(*there);  // if_nametoindex(3) opens a socket here
  if (::if_nametoindex(ifname.c_str()) != 0) return Liveness::kAlive;
  // Other errors mean that there is no descriptor to ask with.
  return errno == ENODEV ? Liveness::kNoInterface : Liveness::kUnknown;
} catch (const netlink::Error&) {
  return Liveness::kUnknown;
}

std::string_view str(Liveness liveness) {
  constexpr std::string_view kWords[] = {"alive", "no namespace", "no interface", "unknown"};
  return kWords[static_cast<std::size_t>(liveness)];
}

}  // namespace cni
