#pragma once

#include <compare>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cni {

/// The spec versions this build speaks, oldest first.
enum class Version { k0_1_0, k0_2_0, k0_3_0, k0_3_1, k0_4_0, k1_0_0, k1_1_0 };

inline constexpr std::string_view kVersions[] = {"0.1.0", "0.2.0", "0.3.0", "0.3.1",
                                                 "0.4.0", "1.0.0", "1.1.0"};
inline constexpr Version kNewest = Version::k1_1_0;

std::span<const std::string_view> supported_versions();
std::string_view str(Version version);
/// Exact text only, as in the reference; "" is 0.1.0. Nothing for any other text.
std::optional<Version> version_from(std::string_view text);

/// Numeric parts of any version text with at most three dot-separated numbers ("1.2", "").
/// For ordering versions that this build does not know.
struct SemVer {
  unsigned major = 0, minor = 0, micro = 0;
  /// \throws Error(kDecodingFailure) where text is not a version.
  static SemVer parse(std::string_view text);
  auto operator<=>(const SemVer&) const = default;
};

}  // namespace cni
