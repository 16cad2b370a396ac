#include "plugins/devices/agent/kubelet/clean.h"

namespace devices {

std::string clean(const std::string& text) {
  constexpr std::size_t kMost = 200;
  std::string out = text.substr(0, kMost);
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  if (text.size() > kMost) out += "...";
  return out;
}

}  // namespace devices
