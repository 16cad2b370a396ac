#pragma once

#include <sys/types.h>

#include <string>

#include "libcni/common/dir.h"

namespace devices {

/// Makes or replaces a file that others than root read, written aside and renamed.
/// \throws netlink::Error.
void write_readable(const cni::Dir& dir, const std::string& name, const std::string& text,
                    mode_t mode);

}  // namespace devices
