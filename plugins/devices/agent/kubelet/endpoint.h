#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plugins/devices/agent/kubelet/device_plugin.h"

namespace devices {

/// What the kubelet reaches by a socket, and what the socket says of itself where it is asked
/// (PluginInfo).
struct Served {
  std::string type, name;  ///< "DevicePlugin" and a resource, "DRAPlugin" and a driver
  std::vector<std::string> versions;
  std::string prefix, ending = ".sock";  ///< of the names of its sockets
  std::vector<std::shared_ptr<grpc::Service>> services;
  std::function<void()> end_streams;  ///< which would last as long as the server
  /// The kubelet says whether it has registered it: an error, or nothing. In a thread of gRPC.
  std::function<void(const std::string& error)> registered = {};
};

/// A resource of the kubelet's device plugin API.
Served served_by(Resource& resource);

/// A socket on which the kubelet reaches a face, and the Registration that it asks a socket in
/// plugins_registry for. It serves as long as it exists. The socket is removed with it, unless
/// another has its name.
class Endpoint {
 public:
  /// Listens on a new socket in the folder, whose name no other process has, nor this one had.
  /// \throws cni::Error, netlink::Error.
  Endpoint(Served served, const std::string& folder);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }
  /// Whether the socket is still where it was: the kubelet removes all when it starts.
  bool is_in_place() const;
  /// Removes the socket and ends the streams. Connections serve other calls until the end.
  void withdraw();

  /// The beginning of the names of all sockets of a resource, whichever process has them.
  static std::string prefix(const std::string& resource);
  /// The process that made the socket of that name, as all sockets of it have it; empty for a
  /// name that is none of an Endpoint with the prefix.
  static std::string instance_of(const std::string& name, const std::string& prefix);
  /// The same of this process.
  static const std::string& own_instance();

 private:
  class Registration;
  struct Services;

  std::string name_, path_;
  std::unique_ptr<Services> services_;
  ino_t inode_ = 0;
};

/// Other instances of the agent that serve the same, by their sockets in the folders of the
/// kubelet: during an upgrade two overlap. Kubelets that keep one client for a resource drop that
/// of this instance when the stream of another one ends, or its socket is removed.
class Instances {
 public:
  using Clock = std::chrono::steady_clock;

  /// \param prefix of the names of their sockets
  Instances(std::vector<std::string> folders, std::string prefix);

  /// Looks at the folders. An instance has ended if it had a socket, and has listened on none for a
  /// moment: one that registers again has none for less. One that was never seen to listen may be
  /// about to, or may have been killed since: it has a little longer. What a killed one left is
  /// removed, at whatever time it was killed.
  void look(Clock::time_point now);
  /// When the last one ended that has been seen (the epoch: none did).
  Clock::time_point last_end() const { return last_end_; }
  /// Whether one lives, or may have ended just now: look again soon.
  bool any() const { return !seen_.empty(); }

 private:
  struct Seen {
    bool has_listened = false;
    Clock::time_point missing_since{};  ///< the epoch: it listens
  };
  struct Socket {
    std::string instance, path;
  };
  std::vector<Socket> sockets() const;
  /// Whether each listens.
  std::map<std::string, bool> found() const;
  void remove_dead(const std::string& instance) const;

  const std::vector<std::string> folders_;
  const std::string prefix_;
  std::map<std::string, Seen> seen_;
  Clock::time_point last_end_{};
};

}  // namespace devices
