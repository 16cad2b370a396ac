#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "plugins/devices/agent/kubelet/limits.h"
#include "plugins/devices/agent/kubelet/stream.h"

namespace devices {

/// The open streams of a call that tells of all devices. Each gets the newest message when it is
/// opened and after each change. A stream whose reader is slow gets the newest one only.
/// Thread-safe.
template <class Message>
class Streams {
 public:
  using Clock = std::chrono::steady_clock;

  Streams() = default;
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  void publish(std::shared_ptr<const Message> message) {
    std::vector<Stream<Message>*> behind;
    {
      const std::lock_guard hold(all_.mutex);
      all_.message = std::move(message);
      for (auto* const stream : all_.streams) {
        if (stream->begin_write()) behind.push_back(stream);
      }
    }
    for (auto* const stream : behind) stream->write();
  }

  /// A new stream, which deletes itself. Beyond kMaxStreams it ends at once.
  grpc::ServerWriteReactor<Message>* open(const void* server) {
    Stream<Message>* stream = nullptr;
    std::function<void()> changed;
    {
      const std::lock_guard hold(all_.mutex);
      if (all_.streams.size() >= kMaxStreams) {
        return new RefusedStream<Message>({grpc::StatusCode::RESOURCE_EXHAUSTED,
                                           "too many streams are open (8 for each resource)"});
      }
      stream = new Stream<Message>(all_, server);
      all_.streams.insert(stream);
      stream->begin_write();
      changed = all_.changed;
    }
    stream->write();
    if (changed) changed();
    return stream;
  }

  /// Calls back, from any thread, when a stream has begun or ended.
  void on_change(const std::function<void()>& changed) {
    const std::lock_guard hold(all_.mutex);
    all_.changed = changed;
  }

  /// Ends the streams that this server has opened.
  void end(const void* server) {
    std::vector<Stream<Message>*> enders;
    {
      const std::lock_guard hold(all_.mutex);
      for (auto* const stream : all_.streams) {
        if (stream->server() == server && stream->begin_end()) enders.push_back(stream);
      }
    }
    for (auto* const stream : enders) stream->finish();
  }

  /// The number of streams that a client reads.
  std::size_t size() const {
    const std::lock_guard hold(all_.mutex);
    return all_.streams.size();
  }
  /// When the last one ended, and when a client ended one last (the epoch: none did).
  Clock::time_point last_end() const {
    const std::lock_guard hold(all_.mutex);
    return all_.last_end;
  }
  Clock::time_point last_drop() const {
    const std::lock_guard hold(all_.mutex);
    return all_.last_drop;
  }

 private:
  Audience<Message> all_;
};

}  // namespace devices
