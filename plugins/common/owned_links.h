#pragma once

#include <string_view>
#include <vector>

#include "libcni/common/hash.h"
#include "libcni/plugin/request.h"
#include "netlink/route/socket.h"

namespace plugins {

/// What the alias of an attachment's links begins with.
cni::OwnerTag owner_of(const cni::Request& request);

/// GC: removes the links of that kind whose alias says that they are this network's, but of no
/// attachment that is to be kept. \throws cni::Error listing those that could not be removed.
void collect_links(const cni::Request& request, const std::vector<cni::Attachment>& valid,
                   std::string_view kind);

}  // namespace plugins
