#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plugins/tuning/conf.h"

namespace tuning {

/// The node's list of sysctls that configs may set: a regular expression per line, of which each
/// key must match one somewhere (the reference's form). An empty file allows none.
inline constexpr const char* kAllowlist = "/etc/cni/tuning/allowlist.conf";

/// \throws cni::Error for the first key that no line of text matches, and for a line that is no
/// regular expression.
void require_allowed_by(const std::string& text, const std::vector<Sysctl>& sysctls);

/// The same by the file. Without it all are allowed; one that cannot be read allows none.
/// \throws cni::Error.
void require_allowed(const std::vector<Sysctl>& sysctls);

}  // namespace tuning
