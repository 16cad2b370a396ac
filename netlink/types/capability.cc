#include "netlink/types/capability.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace netlink {

namespace {

// capget(2), whose structs libc does not have.
struct Header {
  std::uint32_t version = 0x20080522;  // _LINUX_CAPABILITY_VERSION_3
  int pid = 0;                         // this thread
};
struct Part {
  std::uint32_t effective, permitted, inheritable;
};

// The effective set; all of them where the kernel does not say.
std::uint64_t effective() noexcept {
  Header header;
  Part parts[2] = {};
  if (::syscall(SYS_capget, &header, parts) != 0) return ~std::uint64_t{0};
  return parts[0].effective | std::uint64_t{parts[1].effective} << 32;
}

bool is_in(std::uint64_t set, Capability capability) {
  return (set >> static_cast<unsigned>(capability) & 1) != 0;
}

}  // namespace

std::string name_of(Capability capability) {
  switch (capability) {
    case Capability::kNetAdmin:
      return "CAP_NET_ADMIN";
    case Capability::kNetRaw:
      return "CAP_NET_RAW";
    case Capability::kSysAdmin:
      return "CAP_SYS_ADMIN";
  }
  return "?";
}

bool has(Capability capability) noexcept { return is_in(effective(), capability); }

std::string missing_of(std::initializer_list<Capability> wanted) {
  const std::uint64_t set = effective();
  std::string out;
  for (const Capability one : wanted) {
    if (is_in(set, one)) continue;
    if (!out.empty()) out += " and ";
    out += name_of(one);
  }
  return out;
}

}  // namespace netlink
