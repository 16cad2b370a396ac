#pragma once

#include <deviceplugin.pb.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "plugins/devices/agent/stock/stock.h"

namespace devices {

/// The open streams of ListAndWatch of one resource. Each gets the complete list when it is opened
/// and after each change. A stream whose reader is slow gets the newest list only. Thread-safe.
class Feed {
 public:
  using List = v1beta1::ListAndWatchResponse;
  using Clock = std::chrono::steady_clock;

  Feed() = default;
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;

  /// Sends the offers, sorted by ID, to all streams, if they differ from the last ones.
  void publish(const std::vector<Offer>& offers);
  /// A new stream, which deletes itself. Beyond kMaxStreams it ends at once.
  grpc::ServerWriteReactor<List>* open(const void* server);
  /// Calls back, from any thread, when a stream has begun or ended.
  void on_change(std::function<void()> changed) {
    const std::lock_guard hold(mutex_);
    changed_ = std::move(changed);
  }
  /// Ends the streams that this server has opened.
  void end(const void* server);
  /// The number of streams that a client reads.
  std::size_t size() const {
    const std::lock_guard hold(mutex_);
    return streams_.size();
  }
  /// When the last one ended, and when a client ended one last (the epoch: none did).
  Clock::time_point last_end() const {
    const std::lock_guard hold(mutex_);
    return last_end_;
  }
  Clock::time_point last_drop() const {
    const std::lock_guard hold(mutex_);
    return last_drop_;
  }
  /// Whether the device exists, to refuse a request before it changes anything.
  bool has(const std::string& id) const {
    const std::lock_guard hold(mutex_);
    return std::ranges::binary_search(offers_, id, {}, &Offer::id);
  }

 private:
  class Stream;

  /// Under the lock: the streams that have to write now.
  std::vector<Stream*> behind();

  mutable std::mutex mutex_;
  std::vector<Offer> offers_;
  std::shared_ptr<const List> list_ = std::make_shared<List>();
  std::set<Stream*> streams_;
  Clock::time_point last_end_{}, last_drop_{};
  std::function<void()> changed_;
};

}  // namespace devices
