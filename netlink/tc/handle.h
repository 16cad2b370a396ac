#pragma once

#include <cstdint>
#include <string>

namespace netlink::tc {

/// The handle of a qdisc ("1:", minor 0) or a class ("1:30") on one link: major and minor, in the
/// upper and the lower half. Both are hexadecimal in text.
enum class Handle : std::uint32_t {};

constexpr Handle handle(std::uint16_t major, std::uint16_t minor = 0) {
  return Handle{std::uint32_t{major} << 16 | minor};
}
/// "1:", "ffff:", "1:30"; "root", "ingress" and "none" for what is not a number to tc(8).
std::string str(Handle handle);

inline constexpr Handle kNone{0};           ///< as a handle to ask for: the kernel chooses
inline constexpr Handle kRoot{0xFFFFFFFF};  ///< the parent of what a link sends through
/// The parent of the qdiscs ingress and clsact, and their handle.
inline constexpr Handle kHook{0xFFFFFFF1}, kHookHandle = handle(0xFFFF);
/// The parents of filters there: of what the link receives (both qdiscs), and sends (clsact only).
inline constexpr Handle kIngress = handle(0xFFFF, 0xFFF2), kEgress = handle(0xFFFF, 0xFFF3);

}  // namespace netlink::tc
