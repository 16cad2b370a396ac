#include "plugins/devices/agent/pools/dra.h"

#include <unistd.h>

#include <cstdlib>

#include "plugins/devices/agent/pools/pools.h"

namespace devices {

// /var/lib/kubelet/plugins_registry/DRIVER-1234560000-reg.sock has to fit into sun_path.
bool is_driver(const std::string& text) {
  constexpr std::size_t kMost = 53;
  return text.size() <= kMost && is_domain(text);
}

std::string node_name() {
  if (const char* const given = std::getenv("NODE_NAME"); given != nullptr && *given != '\0') {
    return given;
  }
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return {};
  std::string out = name;
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

}  // namespace devices
