#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kubernetes/client.h"
#include "kubernetes/list_watch.h"
#include "plugins/devices/agent/dra/slices/own_slices.h"
#include "plugins/devices/agent/dra/slices/state.h"
#include "plugins/devices/agent/dra/slices/wanted.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/devices/agent/stock/stock.h"

namespace devices::dra {

/// Keeps the ResourceSlices of this node as the stock is: writes what differs, and corrects what
/// others change or remove, as the kubelet does after the driver was away. An API server that is
/// absent, slow or refuses is asked again, with pauses; nothing else waits for it.
///
/// Threads: one that follows the slices in the API, and one that writes.
class SlicePublisher {
 public:
  /// Called in the thread that writes, without a lock of the publisher.
  struct Surroundings {
    std::function<Stock()> stock;
    std::function<void(const SliceState&)> published;  ///< or not: the state has the error
  };

  /// Asks for the stock before it returns from the first wait. \throws cni::Error: Client().
  SlicePublisher(const kubernetes::Access& access, Publisher of, const Pools& pools,
                 Surroundings surroundings);
  /// Leaves the slices as they are: pods keep what they have.
  ~SlicePublisher();
  SlicePublisher(const SlicePublisher&) = delete;
  SlicePublisher& operator=(const SlicePublisher&) = delete;

  /// The stock may have changed. From any thread.
  void wake();

 private:
  void follow();
  void listed(const std::vector<Json>& objects);
  void changed(const Json& object);
  void removed(const Json& object);

  void run();
  bool wait_for_change();
  bool pause(std::chrono::milliseconds time);
  bool has_turn();
  void publish();
  Plan plan(Wish& wish);
  void carry_out(const Plan& plan, const Wish& wish, const std::vector<Json>& contents);
  void write(const Plan& plan, const Plan::Write& write, const Wish& wish, const Json& content);
  void read_again(const std::string& name);
  void forget_removals();
  void know(Slice stored);
  void learn(const Json& sent, const Json& answer);
  void note(const std::exception& error);
  void note_published(const Wish& wish, const std::vector<Json>& contents);

  const Publisher of_;
  const Pools& pools_;
  const Surroundings surroundings_;
  kubernetes::Client client_, watch_client_;

  // Of the thread that writes.
  Features features_;
  std::map<std::string, std::string> stored_as_;  // digests of what the server changed
  std::string owner_;                             // UID of the Node
  double tokens_;
  std::chrono::steady_clock::time_point refilled_;

  std::mutex mutex_;  // for what is below
  std::condition_variable woken_;
  bool is_changed_ = true, is_listed_ = false, is_stopping_ = false;
  OwnSlices own_;
  std::set<std::string> gone_;  // UIDs of slices that were removed since the request began
  std::int64_t highest_ = 0;    // generation
  LastKnown last_known_;
  SliceState state_;
  std::string logged_;  // the last error, until a call of the server succeeds

  std::thread follower_, writer_;
};

}  // namespace devices::dra
