#include "plugins/devices/agent/pools/dra.h"

#include "plugins/devices/agent/pools/pools.h"

namespace devices {

// /var/lib/kubelet/plugins_registry/DRIVER-1234560000-reg.sock has to fit into sun_path.
bool is_driver(const std::string& text) {
  constexpr std::size_t kMost = 53;
  return text.size() <= kMost && is_domain(text);
}

}  // namespace devices
