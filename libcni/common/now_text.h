#pragma once

#include <string>

namespace cni {

/// The time of now for a log: RFC 3339 in UTC, to the microsecond.
std::string now_text();

}  // namespace cni
