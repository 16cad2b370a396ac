#pragma once

#include <cstddef>
#include <string_view>

#include "kubernetes/json.h"

namespace kubernetes {

inline constexpr std::size_t kMaxYaml = 1U << 20;  ///< bytes of a text
inline constexpr int kMaxYamlDepth = 64;
inline constexpr std::size_t kMaxYamlNodes = 100'000;

/// The one document that text has, as JSON; null for an empty text. Plain scalars are null,
/// booleans and numbers as in the core schema of YAML 1.2, and as Kubernetes reads them: 0640 is
/// octal. \param what names it in errors: "kubeconfig '/etc/k'". \throws
/// cni::Error(kDecodingFailure), also for anchors, aliases and tags, with which a short text
/// becomes a huge document, for keys that are no strings, and beyond the limits above.
Json parse_yaml(std::string_view text, std::string_view what);

}  // namespace kubernetes
