#pragma once

#include <string>
#include <vector>

#include "libcni/plugin/request.h"

namespace portmap {

/// Takes down everything of a network but what is valid, with or without a record that can be read.
/// \throws cni::Error listing what could not be removed.
void collect_garbage(const std::string& network, const std::vector<cni::Attachment>& valid);

}  // namespace portmap
