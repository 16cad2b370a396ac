#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "libcni/common/hash.h"

/// Links that plugins create on the node under a name of their own.
namespace names {

/// The default of bridge's `bridge`.
inline constexpr const char* kDefaultBridge = "cni0";

/// Ifbs of bandwidth, as in the reference plugins.
inline constexpr const char* kIfbPrefix = "bwp";

/// The ifb of an attachment: by the container alone, or with the interface where that name is
/// taken.
inline std::array<std::string, 2> ifb_names(std::string_view network, std::string_view container_id,
                                            std::string_view ifname) {
  constexpr std::size_t kLength = 15;  // IFNAMSIZ - 1
  const std::string with_interface = std::string(container_id) + ':' + std::string(ifname);
  return {cni::attachment_hash(kLength, kIfbPrefix, network, container_id),
          cni::attachment_hash(kLength, kIfbPrefix, network, with_interface)};
}

}  // namespace names
