#pragma once

#include <string>

#include "libcni/common/dir.h"
#include "libcni/runtime/cache.h"

namespace cni {

/// The content of a file of the results cache.
std::string text_of(const CachedAttachment& attachment);

/// Decodes the file of this name. key: the owner of a bare result; null: a bare result is an error.
/// \throws Error if it is no whole entry, or that of another name.
CachedAttachment attachment_in(const std::string& name, const File& file, const AttachmentKey* key);

}  // namespace cni
