#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Quantities of Kubernetes (k8s.io/apimachinery/pkg/api/resource): "10G", "512Mi", "1e9", "1.5M".
namespace devices {

/// nullopt: no quantity, a negative one, or not a whole number that a 64-bit integer holds.
std::optional<std::int64_t> quantity_in(std::string_view text);

/// The canonical form, in which an API server returns it: "1500M", "1k".
/// \param value not negative.
std::string quantity_text(std::int64_t value);

}  // namespace devices
