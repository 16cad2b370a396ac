#include "netlink/tc/handle.h"

#include <cstdio>

namespace netlink::tc {

std::string str(Handle handle) {
  if (handle == kNone) return "none";
  if (handle == kRoot) return "root";
  if (handle == kHook) return "ingress";
  const auto value = static_cast<std::uint32_t>(handle);
  char text[16];
  const int size = (value & 0xFFFFU) == 0
                       ? std::snprintf(text, sizeof text, "%x:", value >> 16)
                       : std::snprintf(text, sizeof text, "%x:%x", value >> 16, value & 0xFFFFU);
  return {text, static_cast<std::size_t>(size)};
}

}  // namespace netlink::tc
