#pragma once

#include <string_view>

#include "libcni/common/hash.h"
#include "libcni/plugin/collect.h"
#include "libcni/plugin/request.h"
#include "netlink/route/socket.h"

namespace plugins {

/// The tag that the alias of an attachment's links begins with.
cni::OwnerTag owner_of(const cni::Request& request);

/// GC: removes the links of that kind whose alias is of no valid attachment. A veth whose peer is
/// in another namespace is one that lives. \throws cni::Error listing those that could not be
/// removed.
void collect_links(std::string_view kind, cni::Collect& collect);

/// GC of what was seen dead: nothing is removed of an attachment whose host veth has a peer by now.
/// Neither its alias nor the kernel's word about the peer is the pod's to write.
void ask_host_veths(cni::Collect& collect);

}  // namespace plugins
