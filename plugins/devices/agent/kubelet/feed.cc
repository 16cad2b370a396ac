#include "plugins/devices/agent/kubelet/feed.h"

#include <utility>

#include "plugins/devices/agent/kubelet/limits.h"

namespace devices {

namespace {

std::shared_ptr<const Feed::List> list_of(const std::vector<Offer>& offers) {
  auto out = std::make_shared<Feed::List>();
  for (const Offer& offer : offers) {
    v1beta1::Device& device = *out->add_devices();
    device.set_id(offer.id);
    device.set_health(offer.healthy ? "Healthy" : "Unhealthy");
    if (offer.numa) device.mutable_topology()->add_nodes()->set_id(*offer.numa);
  }
  return out;
}

class Refused final : public grpc::ServerWriteReactor<Feed::List> {
 public:
  explicit Refused(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

// Finish() is called when no write is under way, and OnDone() follows both. The thread that sets
// writing_ under the lock may therefore use the stream without the lock until the write starts.
class Feed::Stream final : public grpc::ServerWriteReactor<List> {
 public:
  Stream(Feed& feed, const void* server) : feed_(feed), server_(server) {}

  const void* server() const { return server_; }

  /// Under the lock. True: write() has to follow, without it.
  bool begin_write() {
    if (writing_ || ending_ || sent_ == feed_.list_) return false;
    writing_ = true;
    sent_ = feed_.list_;
    return true;
  }
  void write() { StartWrite(sent_.get()); }

  /// Under the lock, before begin_end(): it is the client that ends it.
  void note_drop() {
    if (!ending_) feed_.last_drop_ = Clock::now();
  }
  /// Under the lock. True: finish() has to follow, without it.
  bool begin_end() {
    if (std::exchange(ending_, true)) return false;
    return !writing_;
  }
  void finish() { Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the stream ends")); }

  void OnWriteDone(bool ok) override {
    bool more = false;
    bool end = false;
    {
      const std::lock_guard hold(feed_.mutex_);
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
      const std::lock_guard hold(feed_.mutex_);
      note_drop();
      end = begin_end();
    }
    if (end) finish();
  }

  void OnDone() override {
    std::function<void()> changed;
    {
      const std::lock_guard hold(feed_.mutex_);
      feed_.streams_.erase(this);
      feed_.last_end_ = Clock::now();
      changed = feed_.changed_;
    }
    if (changed) changed();
    delete this;
  }

 private:
  Feed& feed_;
  const void* const server_;
  std::shared_ptr<const List> sent_;
  bool writing_ = false;
  bool ending_ = false;
};

std::vector<Feed::Stream*> Feed::behind() {
  std::vector<Stream*> out;
  for (Stream* const stream : streams_) {
    if (stream->begin_write()) out.push_back(stream);
  }
  return out;
}

void Feed::publish(const std::vector<Offer>& offers) {
  std::vector<Stream*> writers;
  {
    const std::lock_guard hold(mutex_);
    if (offers == offers_) return;
    offers_ = offers;
    list_ = list_of(offers);
    writers = behind();
  }
  for (Stream* const stream : writers) stream->write();
}

grpc::ServerWriteReactor<Feed::List>* Feed::open(const void* server) {
  Stream* stream = nullptr;
  std::function<void()> changed;
  {
    const std::lock_guard hold(mutex_);
    if (streams_.size() >= kMaxStreams) {
      return new Refused({grpc::StatusCode::RESOURCE_EXHAUSTED,
                          "too many streams of ListAndWatch are open (8 for each resource)"});
    }
    stream = new Stream(*this, server);
    streams_.insert(stream);
    stream->begin_write();
    changed = changed_;
  }
  stream->write();
  if (changed) changed();
  return stream;
}

void Feed::end(const void* server) {
  std::vector<Stream*> enders;
  {
    const std::lock_guard hold(mutex_);
    for (Stream* const stream : streams_) {
      if (stream->server() == server && stream->begin_end()) enders.push_back(stream);
    }
  }
  for (Stream* const stream : enders) stream->finish();
}

}  // namespace devices
