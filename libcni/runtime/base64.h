#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace cni {

/// RFC 4648, section 4, with padding: how Go writes bytes into JSON.
std::string base64_encode(std::string_view bytes);

/// Empty: text is not base64. Line breaks are passed over, as in Go.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace cni
