#include "libcni/daemon/node_name.h"

#include <unistd.h>

#include <cstdlib>

namespace cni {

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

}  // namespace cni
