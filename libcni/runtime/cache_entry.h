#pragma once

#include <string>

#include "libcni/common/dir.h"
#include "libcni/runtime/cache.h"

namespace cni {

/// What a file of the results cache holds.
std::string text_of(const CachedAttachment& attachment);

/// What a file of this name says. key: whose a bare result is; with null there is nobody to have
/// it. \throws Error where it is no whole entry, or that of another name.
CachedAttachment attachment_in(const std::string& name, const File& file, const AttachmentKey* key);

}  // namespace cni
