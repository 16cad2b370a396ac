#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace kubernetes {

/// The bytes of base64 (RFC 4648, 4) in one or more lines; empty for another text.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace kubernetes
