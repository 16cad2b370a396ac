#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plugins/state/ledger_entry.h"

/// What the API server says of a ResourceClaim (resource.k8s.io/v1) that the kubelet asks this
/// driver to prepare. It is trusted with what it says, not with sizes.
namespace devices::dra {

using Json = nlohmann::json;

/// Bytes of an answer with a claim, which is a few kilobytes. Whoever may make claims can write
/// more, and as objects in memory it is 25 times as long, in as many threads as there are calls.
inline constexpr std::size_t kMaxClaimBytes = std::size_t{256} << 10;
// The API's limits are 32, 64, 32 and 10 KiB.
inline constexpr std::size_t kMaxResults = 64;
inline constexpr std::size_t kMaxConfigs = 128;
inline constexpr std::size_t kMaxRequests = 64;  ///< of a config
inline constexpr std::size_t kMaxParameters = 32 * 1024;

/// A device that is allocated to the claim.
struct Result {
  std::string request;                         ///< "nic", or "nic/fast" for a subrequest
  std::string device;                          ///< its name in the ResourceSlice
  std::string share = {};                      ///< shareID, of a device that many claims share
  std::optional<std::int64_t> bandwidth = {};  ///< consumed, bits per second
  bool operator==(const Result&) const = default;
};

/// Parameters for this driver.
struct Config {
  bool is_from_class = false;              ///< an administrator wrote it
  std::vector<std::string> requests = {};  ///< which it is for; none: for all
  Json parameters = {};
  std::string at = {};  ///< where they are: "status.allocation.devices.config[0].opaque.parameters"

  /// Whether it is for a result's request: by its name, or that of the request of a subrequest.
  bool is_for(const std::string& request) const;
};

/// The claim with what is this driver's on this node.
struct Allocation {
  std::string uid, space, name;
  Pod pod;  ///< the one that has reserved it
  std::vector<Result> results;
  std::vector<Config> configs;  ///< those of classes first
};

/// What the kubelet asks for, and who is asked.
struct Asked {
  std::string uid, space, name;
  std::string driver, pool;
};

/// \throws cni::Error(kInvalidConfig) with a sentence where the claim is not what the kubelet
/// means, is not allocated, is not exactly one pod's, or has what this driver does not serve.
Allocation allocation_in(const Json& object, const Asked& asked);

}  // namespace devices::dra
