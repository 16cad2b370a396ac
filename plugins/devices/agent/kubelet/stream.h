#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace devices {

template <class Message>
class Stream;

/// What the streams of a call share.
template <class Message>
struct Audience {
  using Clock = std::chrono::steady_clock;

  mutable std::mutex mutex = {};  // for what is below
  std::shared_ptr<const Message> message = std::make_shared<Message>();
  std::set<Stream<Message>*> streams = {};
  Clock::time_point last_end{};   ///< when the last one ended (the epoch: none did)
  Clock::time_point last_drop{};  ///< the same, by a client
  std::function<void()> changed = {};
};

/// A stream that ends at once.
template <class Message>
class RefusedStream final : public grpc::ServerWriteReactor<Message> {
 public:
  explicit RefusedStream(const grpc::Status& status) { this->Finish(status); }
  void OnDone() override { delete this; }
};

/// An open stream, which deletes itself. Finish() is called when no write is under way, and
/// OnDone() follows both. The thread that sets writing_ under the lock may therefore use the stream
/// without the lock until the write starts.
template <class Message>
class Stream final : public grpc::ServerWriteReactor<Message> {
 public:
  Stream(Audience<Message>& all, const void* server) : all_(all), server_(server) {}

  const void* server() const { return server_; }

  /// Under the lock. True: write() has to follow, without it.
  bool begin_write() {
    if (writing_ || ending_ || sent_ == all_.message) return false;
    writing_ = true;
    sent_ = all_.message;
    return true;
  }
  void write() { this->StartWrite(sent_.get()); }

  /// Under the lock, before begin_end(): it is the client that ends it.
  void note_drop() {
    if (!ending_) all_.last_drop = Audience<Message>::Clock::now();
  }
  /// Under the lock. True: finish() has to follow, without it.
  bool begin_end() {
    if (std::exchange(ending_, true)) return false;
    return !writing_;
  }
  void finish() { this->Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream ends")); }

  void OnWriteDone(bool ok) override {
    bool more = false;
    bool end = false;
    {
      const std::lock_guard hold(all_.mutex);
      writing_ = false;
      if (!ok) note_drop();
      end = !ok || ending_;
      ending_ = end;
      more = begin_write();
    }
    if (more) write();
    if (end) finish();
  }

  void OnCancel() override {
    bool end = false;
    {
      const std::lock_guard hold(all_.mutex);
      note_drop();
      end = begin_end();
    }
    if (end) finish();
  }

  void OnDone() override {
    std::function<void()> changed;
    {
      const std::lock_guard hold(all_.mutex);
      all_.streams.erase(this);
      all_.last_end = Audience<Message>::Clock::now();
      changed = all_.changed;
    }
    if (changed) changed();
    delete this;
  }

 private:
  Audience<Message>& all_;
  const void* const server_;
  std::shared_ptr<const Message> sent_;
  bool writing_ = false;
  bool ending_ = false;
};

}  // namespace devices
