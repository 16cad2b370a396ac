#pragma once

#include <grpcpp/channel.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

/// Limits for the kubelet. It is trusted with the node, but a message of it may be another
/// program's.
namespace devices {

/// A request: 10000 ids of 63 characters are 0.7 MB.
inline constexpr int kMaxRequestBytes = 1 << 20;
inline constexpr std::size_t kMaxIds = 10'000;  ///< of all containers of a request
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

/// A connection to the kubelet's socket at a path, with answers of at most so many bytes: not that
/// of an earlier kubelet, nor its wait before the next attempt.
std::shared_ptr<grpc::Channel> channel_to(const std::string& path, int most);

/// A text that others chose, for the log and for errors: '?' for each byte that is not printable
/// ASCII, "..." for what is beyond so many characters.
std::string clean(const std::string& text, std::size_t most = 200);

/// Writes what gRPC and protobuf log as lines of the agent's log, which are JSON: errors, at most
/// one a second of each, because others can cause them at any rate. Before they are used.
void take_library_logs();

}  // namespace devices
