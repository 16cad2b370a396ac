#pragma once

#include <optional>

#include "libcni/plugin/plugin.h"
#include "libcni/plugin/request.h"

// clang-format off
namespace bandwidth { extern const cni::Plugin kPlugin; }
namespace bridge { extern const cni::Plugin kPlugin; }
namespace host_local { extern const cni::Plugin kPlugin; }
namespace loopback { extern const cni::Plugin kPlugin; }
namespace portmap { extern const cni::Plugin kPlugin; }
namespace static_ipam { extern const cni::Plugin kPlugin; }
// clang-format on

namespace fuzz {

/// A call of a plugin as a text: lines VARIABLE=VALUE, an empty line, and the config on stdin.
/// Variables that are not named are those of an ADD; without an empty line all of it is the config.
/// Nothing where the request is refused.
std::optional<cni::Request> request_in(std::string_view text);

/// What every plugin does with a request before it looks at the node: validate() for what ADD
/// takes, and the list of attachments of GC. Whether validate() accepts it.
bool takes(const cni::Request& request, void (*validate)(const cni::Request&));

}  // namespace fuzz
