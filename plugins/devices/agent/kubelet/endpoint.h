#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "plugins/devices/agent/kubelet/device_plugin.h"

namespace devices {

/// A socket on which the kubelet reaches a resource: DevicePlugin, and the Registration that it
/// asks a socket in plugins_registry for. It serves as long as it exists. The socket is removed
/// with it, unless another has its name.
class Endpoint {
 public:
  /// Listens on a new socket in the folder, whose name no other process has, nor this one had.
  /// \throws cni::Error, netlink::Error.
  Endpoint(const Resource& resource, const std::string& folder);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }
  /// Whether the socket is still where it was: the kubelet removes all when it starts.
  bool is_in_place() const;
  /// Removes the socket and ends the streams. Connections serve other calls until the end.
  void withdraw();

  /// What the names of all sockets of a resource begin with, whichever process has them.
  static std::string prefix(const std::string& resource);
  /// Which process made the socket of that name, as all sockets of one process have it; empty for a
  /// name without the prefix.
  static std::string instance_of(const std::string& name, const std::string& prefix);
  /// The same of this process.
  static const std::string& own_instance();
  /// Removes the sockets in a folder whose names begin so and on which nobody listens, such as
  /// those of a process that was killed. Younger ones are left: a process may be about to listen.
  static void remove_stale(const std::string& folder, const std::string& begin,
                           std::chrono::seconds age);

 private:
  class Registration;
  struct Services;

  std::string name_, path_;
  std::unique_ptr<Services> services_;
  ino_t inode_ = 0;
};

}  // namespace devices
