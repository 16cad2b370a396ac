#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "kubernetes/client.h"
#include "libcni/daemon/event_loop.h"
#include "libcni/daemon/folder_watch.h"
#include "plugins/devices/agent/core.h"
#include "plugins/devices/agent/dra/health.h"
#include "plugins/devices/agent/dra/preparer.h"
#include "plugins/devices/agent/dra/service.h"
#include "plugins/devices/agent/kubelet/endpoint.h"
#include "plugins/devices/agent/kubelet/registrar.h"
#include "plugins/devices/agent/worker.h"

namespace devices::dra {

/// The agent's face to the kubelet as a driver of DRA: a socket in DIR/plugins_registry, by which
/// the kubelet finds and reaches it. Each instance of the agent has sockets of its own, so that the
/// old one of an update takes nothing from the new one; it registers again by another socket where
/// its own was removed, or where the kubelet has not registered it after a while.
///
/// Threads: one that registers, those that prepare, and one that unprepares.
class Driver {
 public:
  /// \param dir the kubelet's. The config of the core has `dra`. \throws cni::Error: Client().
  Driver(Core& core, const std::string& dir, const std::string& plugin_dir);
  /// Removes its socket, and answers what is under way.
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// The stock may have changed. From any thread.
  void wake();

 private:
  using Clock = std::chrono::steady_clock;
  /// A socket that was withdrawn, and until when it answers.
  struct Former {
    std::unique_ptr<Endpoint> endpoint;
    Clock::time_point until;
  };

  nlohmann::json ask(const NamedClaim& claim, std::chrono::milliseconds most);
  void publish_health();
  void look_soon();
  void look();
  std::chrono::milliseconds pass();
  void find_kubelet(Clock::time_point now);
  void note_answer(const std::optional<KubeletSocket::Stamp>& stamp, bool is_registered);
  bool has_to_renew(Clock::time_point now) const;
  bool starves(Clock::time_point now) const;
  void listen(Clock::time_point now);
  void retire(std::size_t index, Clock::time_point now);
  Served served();
  void note(const std::string& error);
  void report();

  Core& core_;
  const Dra conf_;
  const std::string registry_;
  kubernetes::Client client_, quick_client_;
  Preparer preparer_;
  Worker preparing_, releasing_;
  Work work_{preparer_, preparing_, releasing_};
  Health health_;

  KubeletSocket kubelet_;
  std::optional<KubeletSocket::Stamp> stamp_;
  Instances others_;
  std::deque<std::unique_ptr<Endpoint>> endpoints_;  ///< the newest last, at most two
  std::deque<Former> former_;
  Clock::time_point settled_{};  ///< the kubelet has seen that a socket went
  Clock::time_point since_{};    ///< when it registered last
  std::chrono::seconds patience_;
  bool is_near_ = false;  ///< look_soon() waits
  bool is_registered_ = false;
  bool is_confirmed_ = false;  ///< by the newest socket
  std::string error_;          ///< the last one, which is logged once
  cni::EventLoop loop_;
  cni::FolderWatch watch_;
  std::thread thread_;
};

}  // namespace devices::dra
