#include "libcni/common/version.h"

#include <array>
#include <charconv>

#include "libcni/common/error.h"

namespace cni {

std::span<const std::string_view> supported_versions() { return kVersions; }

std::string_view str(Version version) { return kVersions[static_cast<std::size_t>(version)]; }

std::optional<Version> version_from(std::string_view text) {
  if (text.empty()) return Version::k0_1_0;
  for (std::size_t i = 0; i < std::size(kVersions); ++i) {
    if (kVersions[i] == text) return static_cast<Version>(i);
  }
  return std::nullopt;
}

SemVer SemVer::parse(std::string_view text) {
  if (text.empty()) return {0, 1, 0};
  const auto bad = [text](std::string_view why) {
    return Error(Code::kDecodingFailure, cat("invalid version \"", text, "\": ", why));
  };
  unsigned parts[3] = {0, 0, 0};
  constexpr std::array<std::string_view, 3> kNames{"major", "minor", "micro"};
  std::string_view rest = text;
  for (std::size_t i = 0;; ++i) {
    if (i == 3) throw bad("too many parts");
    const auto dot = rest.find('.');
    const auto part = rest.substr(0, dot);
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), parts[i]);
    if (error != std::errc() || end != part.data() + part.size()) {
      throw bad(cat("the ", kNames[i], " part '", part, "' is not a number"));
    }
    if (dot == std::string_view::npos) return {parts[0], parts[1], parts[2]};
    rest.remove_prefix(dot + 1);
  }
}

}  // namespace cni
