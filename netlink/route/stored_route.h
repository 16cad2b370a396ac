#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "netlink/route/route.h"

namespace netlink {

/// A route as text, for a file: what the kernel showed, in hexadecimal.
std::string stored(const RouteCopy& route);
/// Empty: the text is no route.
std::optional<RouteCopy> route_from_stored(std::string_view text);

}  // namespace netlink
