#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "libcni/daemon/event_loop.h"
#include "libcni/daemon/folder_watch.h"
#include "plugins/devices/agent/kubelet/endpoint.h"

namespace grpc {
class ClientContext;
}

namespace devices {

/// device-plugins/kubelet.sock, on which the kubelet takes registrations.
class KubeletSocket {
 public:
  explicit KubeletSocket(std::string path) : path_(std::move(path)) {}

  /// Its inode, and when it changed, in nanoseconds: another one after each start of the kubelet.
  /// Empty: there is no socket.
  using Stamp = std::pair<ino_t, std::int64_t>;
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

/// The ways in which the kubelet learns of a resource.
enum class Way {
  kFound,  ///< by a socket in plugins_registry: it is found after its restart, too
  kCall,   ///< by a call of Register, and a socket in device-plugins
};

/// The folders of the kubelet.
struct Folders {
  std::string plugins;   ///< device-plugins
  std::string registry;  ///< plugins_registry, which may not exist
};

/// Keeps each resource registered: once more when the kubelet has ended its stream, and when
/// another instance of the agent has ended; while the kubelet does not read the list, by one way
/// and then the other, ever more seldom. In a thread of its own, because a call of Register waits
/// for the kubelet, which calls back meanwhile.
class Registrar {
 public:
  Registrar(Folders folders, std::deque<Resource>& resources);
  /// Ends all endpoints.
  ~Registrar();
  Registrar(const Registrar&) = delete;
  Registrar& operator=(const Registrar&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  class Budget;
  struct Face;

  void look_soon();
  void look();
  std::chrono::milliseconds pass();
  void find_kubelet();
  void attend(Face& face);
  void report(Face& face) const;
  bool has_registry() const;
  bool was_dropped(const Face& face) const;
  bool starves(const Face& face, Clock::time_point now) const;
  void renew(Face& face, Clock::time_point now) const;
  void retire(Face& face) const;
  void change_way(Face& face, Clock::time_point now) const;
  void listen(Face& face) const;
  void call(Face& face);
  void note_failure(Face& face, const std::string& error) const;

  const Folders folders_;
  KubeletSocket kubelet_;
  std::optional<KubeletSocket::Stamp> stamp_;  ///< as the last pass found it
  Clock::time_point stamp_since_{};
  bool kubelet_listens_ = false;
  std::vector<std::unique_ptr<Face>> faces_;
  cni::EventLoop loop_;
  cni::FolderWatch watch_;
  cni::BootTime next_{};  ///< not before that another pass
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace devices
