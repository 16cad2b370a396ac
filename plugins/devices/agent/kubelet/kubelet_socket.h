#pragma once

#include <sys/types.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace grpc {
class ClientContext;
}

namespace devices {

/// device-plugins/kubelet.sock, on which the kubelet takes registrations.
class KubeletSocket {
 public:
  explicit KubeletSocket(std::string path) : path_(std::move(path)) {}

  /// Another one after each start of the kubelet; empty: there is no socket.
  struct Stamp {
    ino_t inode = 0;
    std::int64_t changed = 0;  ///< nanoseconds
    bool operator==(const Stamp&) const = default;
  };
  std::optional<Stamp> stamp() const;
  /// Whether a kubelet listens on it: the file of one that was killed stays.
  bool has_listener() const;

  /// Registers a resource by the name of its socket in the same folder. The kubelet calls back
  /// before it answers or after. \throws cni::Error(kTryAgainLater) with its text.
  void register_plugin(const std::string& resource, const std::string& socket_name);
  /// From any thread: ends a registration that waits, and each later one.
  void stop();

 private:
  std::string path_;
  std::mutex mutex_;
  grpc::ClientContext* waiting_ = nullptr;
  bool stopping_ = false;
};

}  // namespace devices
