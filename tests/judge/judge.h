#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>

#include "netlink/types/error.h"

/// The judges of netlink/: libmnl and libnl-route read the same bytes. Where they disagree with
/// netlink/, the process ends and says in what.
namespace judge {

inline bool any_bytes = false;
/// While one lives, messages need not make sense.
struct AnyBytes {
  AnyBytes() { any_bytes = true; }
  AnyBytes(const AnyBytes&) = delete;
  AnyBytes& operator=(const AnyBytes&) = delete;
  ~AnyBytes() { any_bytes = false; }
};

[[noreturn]] inline void disagree(const char* what, const std::string& details = "") {
  std::fprintf(stderr, "judge: %s%s\n", what, details.c_str());
  std::abort();
}

inline void require(bool holds, const char* what) {
  if (!holds) disagree(what);
}

/// Numbers of one width are the same whatever their signs say.
template <class Ours, class Theirs>
void same(const char* what, const Ours& ours, const Theirs& theirs) {
  if constexpr (std::is_integral_v<Ours> && !std::is_same_v<Ours, bool>) {
    if (sizeof ours == sizeof theirs && ours == static_cast<Ours>(theirs)) return;
    if (std::cmp_equal(ours, theirs)) return;
  } else {
    if (ours == theirs) return;
  }
  if constexpr (std::is_integral_v<Ours> || std::is_convertible_v<Ours, std::string>) {
    disagree(what, netlink::cat(": ours is ", ours, ", theirs ", theirs));
  } else {
    disagree(what, " differs");
  }
}

}  // namespace judge
