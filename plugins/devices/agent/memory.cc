#include "plugins/devices/agent/memory.h"

#include <malloc.h>

#include <cstddef>

namespace devices {

void trim_after_much() noexcept {
  constexpr std::size_t kMuch = 4U << 20;
  if (::mallinfo2().fordblks > kMuch) ::malloc_trim(0);
}

}  // namespace devices
