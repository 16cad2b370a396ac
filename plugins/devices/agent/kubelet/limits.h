#pragma once

#include <chrono>
#include <cstddef>

/// What is accepted of the kubelet. It is trusted with the node, but a message of it may be another
/// program's.
namespace devices {

/// A request: 10000 ids of 63 characters are 0.7 MB.
inline constexpr int kMaxRequestBytes = 1 << 20;
inline constexpr std::size_t kMaxIdLength = 63;  ///< the API's own
inline constexpr std::size_t kMaxIds = 10'000;   ///< of all containers of a request
inline constexpr std::size_t kMaxContainers = 100;
inline constexpr std::size_t kMaxStreams = 8;  ///< of ListAndWatch, for each resource
inline constexpr int kMaxCallsOfConnection = 64;
inline constexpr std::size_t kMaxWaitingCalls = 64;  ///< of all resources
inline constexpr std::chrono::milliseconds kMaxHandshake{5'000};
/// A connection on which no call is open.
inline constexpr std::chrono::milliseconds kMaxIdle{60'000};

/// An answer of PodResources, as its other clients have it. The kubelet sets no limit of its own.
inline constexpr int kMaxPodResourcesBytes = 16 << 20;
/// An answer to Register.
inline constexpr int kMaxAnswerBytes = 64 << 10;
inline constexpr int kMaxMetadataBytes = 8 << 10;

}  // namespace devices
