#include "plugins/devices/agent/files/readable.h"

#include <sys/stat.h>

#include <cerrno>

#include "libcni/common/error.h"

namespace devices {

namespace {

// No reader takes a name that does not end in .json, .yaml or .prom.
constexpr const char* kWrittenAside = ".patchbay-agent.new";

}  // namespace

void write_readable(const cni::Dir& dir, const std::string& name, const std::string& text,
                    mode_t mode) {
  dir.replace(name, text, kWrittenAside);
  if (::fchmodat(dir.fd(), name.c_str(), mode, 0) != 0) {
    throw netlink::Error(cni::cat("make '", dir.path(), "/", name, "' readable"), errno);
  }
}

}  // namespace devices
