#include "plugins/devices/agent/kubelet/registrar.h"

#include <deviceplugin.grpc.pb.h>
#include <grpcpp/grpcpp.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/daemon/listener.h"
#include "plugins/devices/agent/kubelet/limits.h"
#include "plugins/devices/agent/log.h"

namespace devices {

namespace {

using cni::cat;

// The kubelet has 10 s to call back before it answers.
constexpr std::chrono::seconds kRegisterDeadline{15};

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kPoll{5'000};        // a change that inotify did not report
constexpr milliseconds kQuietPoll{30'000};  // while the kubelet reads all lists
constexpr milliseconds kBetween{100};       // two passes: someone may make names without an end
constexpr milliseconds kUpgradePoll{200};   // another instance may be killed
// From the end of streams to the next registration: see retire().
constexpr milliseconds kSettle{100};
// The time that the kubelet has to read a list before it is registered again. A kubelet looks for
// sockets each second.
constexpr seconds kPatience{10};
constexpr seconds kMostPatience{300};
constexpr seconds kFirstDelay{1};
constexpr seconds kMostDelay{30};

template <class Duration>
Duration doubled(Duration value, Duration most) {
  return std::min(value * 2, most);
}

}  // namespace

std::optional<KubeletSocket::Stamp> KubeletSocket::stamp() const {
  constexpr std::int64_t kSecond = 1'000'000'000;
  struct stat found {};
  if (::stat(path_.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return {};
  return Stamp{found.st_ino, found.st_ctim.tv_sec * kSecond + found.st_ctim.tv_nsec};
}

bool KubeletSocket::has_listener() const { return cni::has_listener(path_); }

void KubeletSocket::register_plugin(const std::string& resource, const std::string& socket_name) {
  v1beta1::RegisterRequest request;
  request.set_version("v1beta1");
  request.set_endpoint(socket_name);
  request.set_resource_name(resource);
  request.mutable_options()->set_get_preferred_allocation_available(true);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kRegisterDeadline);
  {
    const std::lock_guard hold(mutex_);
    if (stopping_) context.TryCancel();
    waiting_ = &context;
  }
  v1beta1::Empty answer;
  const grpc::Status status = v1beta1::Registration::NewStub(channel_to(path_, kMaxAnswerBytes))
                                  ->Register(&context, request, &answer);
  {
    const std::lock_guard hold(mutex_);
    waiting_ = nullptr;
  }
  if (status.ok()) return;
  throw cni::Error(cni::Code::kTryAgainLater,
                   cat("register at '", path_, "': ", clean(status.error_message())));
}

void KubeletSocket::stop() {
  const std::lock_guard hold(mutex_);
  stopping_ = true;
  if (waiting_ != nullptr) waiting_->TryCancel();
}

// Registrations after a disturbance, so that two instances, or a kubelet that ends each stream,
// cause no storm of them.
class Registrar::Budget {
 public:
  bool take(Clock::time_point now) {
    full_ = std::max(full_, now);
    if (full_ - now > (kMost - 1) * kRefill) return false;
    full_ += kRefill;
    return true;
  }

 private:
  static constexpr int kMost = 20;
  static constexpr seconds kRefill{5};
  Clock::time_point full_{};  // when it is whole again
};

// A resource, as it is registered.
struct Registrar::Face {
  Resource& resource;
  Instances others;
  Way way = Way::kFound;
  std::unique_ptr<Endpoint> endpoint = {};
  std::unique_ptr<Endpoint> former = {};  // serves calls that are under way
  Clock::time_point former_until = {};
  Clock::time_point settled = {};  // the kubelet has seen the end of the streams
  Clock::time_point since = {};    // the registration began
  Clock::time_point until = {};    // it ended
  Budget budget = {};
  bool is_read = false;                             // as the last pass found it
  seconds patience = kPatience;                     // with it
  Clock::time_point next_call = {};                 // of Register
  seconds delay = kFirstDelay;                      // after a failure
  std::optional<KubeletSocket::Stamp> called = {};  // the kubelet that answered Register
  std::string failure = {};                         // the last one, which is reported once
};

Registrar::Registrar(Folders folders, std::deque<Resource>& resources)
    : folders_(std::move(folders)),
      kubelet_(cat(folders_.plugins, "/kubelet.sock")),
      watch_(IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF) {
  for (Resource& resource : resources) {
    faces_.push_back(
        std::make_unique<Face>(Face{.resource = resource,
                                    .others = Instances({folders_.plugins, folders_.registry},
                                                        Endpoint::prefix(resource.name))}));
  }
  for (const auto& face : faces_)
    face->resource.feed.streams().on_change([this] { loop_.post([this] { look_soon(); }); });
  if (watch_.fd() >= 0) {
    loop_.watch(watch_.fd(), [this] {
      watch_.take();
      look_soon();
    });
  }
  loop_.at(next_, this, [this] { look(); });
  thread_ = std::thread([this] {
    loop_.run([](const std::exception& e) { log(Level::kError, "register", {.error = e.what()}); });
  });
}

Registrar::~Registrar() {
  stopping_ = true;
  kubelet_.stop();
  loop_.stop();
  thread_.join();
  for (const auto& face : faces_) {  // their streams end, and wake
    face->former.reset();
    face->endpoint.reset();
  }
  for (const auto& face : faces_) face->resource.feed.streams().on_change({});
}

void Registrar::look_soon() {
  loop_.at(next_, this, [this] { look(); });
}

void Registrar::look() {
  const auto pause = pass();
  next_ = cni::EventLoop::now() + kBetween;
  loop_.after(std::max(pause, kBetween), this, [this] { look(); });
  for (const std::string& folder : {folders_.plugins, folders_.registry}) {
    if (watch_.is_new(folder)) look_soon();  // a change may have been missed
  }
}

// Returns when to look again, if nothing happens.
milliseconds Registrar::pass() {
  find_kubelet();
  bool all_read = true;
  bool has_others = false;
  bool settles = false;
  for (const auto& face : faces_) {
    if (stopping_) break;
    attend(*face);
    all_read = all_read && face->resource.feed.streams().size() > 0;
    has_others = has_others || face->others.any();
    settles = settles || Clock::now() < face->settled;
  }
  if (settles) return kSettle;
  if (has_others) return kUpgradePoll;
  return all_read ? kQuietPoll : stamp_ ? milliseconds(kFirstDelay) : kPoll;
}

void Registrar::find_kubelet() {
  if (const auto stamp = kubelet_.stamp(); stamp != stamp_) {
    stamp_ = stamp;
    stamp_since_ = Clock::now();
    for (const auto& face : faces_) {
      face->next_call = {};
      face->delay = kFirstDelay;
      face->patience = kPatience;
    }
  }
  const auto is_read = [](const auto& face) { return face->resource.feed.streams().size() > 0; };
  kubelet_listens_ = stamp_ && (std::ranges::all_of(faces_, is_read) || kubelet_.has_listener());
}

void Registrar::attend(Face& face) {
  const auto now = Clock::now();
  if (face.former && now > face.former_until) face.former.reset();
  report(face);
  if (face.is_read) {
    face.patience = kPatience;
    face.delay = kFirstDelay;
  }
  if (face.way == Way::kFound && !has_registry()) {
    face.way = Way::kCall;
    retire(face);
  }
  if (face.endpoint && !face.endpoint->is_in_place()) retire(face);
  face.others.look(now);
  if (was_dropped(face)) {
    renew(face, now);
  } else if (starves(face, now)) {
    change_way(face, now);
  }
  try {
    if (!face.endpoint) listen(face);
    if (face.way == Way::kCall) call(face);
  } catch (const std::exception& e) {
    note_failure(face, e.what());
  }
}

// For `status` and the metrics: without the kubelet's reading pods get no device.
void Registrar::report(Face& face) const {
  const bool is_read = face.resource.feed.streams().size() > 0;
  face.resource.core.note_read(face.resource.name, is_read);
  if (is_read == std::exchange(face.is_read, is_read)) return;
  log(is_read ? Level::kInfo : Level::kWarning,
      is_read ? "the kubelet reads the list of devices"
              : "the kubelet does not read the list of devices any more",
      {.resource = face.resource.name});
}

bool Registrar::has_registry() const { return cni::Dir::exists(folders_.registry); }

// Kubelets that keep one client for a resource drop the one of this instance when another one ends;
// the stream of this one may stay open for all that. A kubelet that has started since registers
// anew by itself.
bool Registrar::was_dropped(const Face& face) const {
  if (!face.endpoint || !kubelet_listens_) return false;
  if (face.others.last_end() >= face.since) return true;
  const auto drop = face.resource.feed.streams().last_drop();
  return face.resource.feed.streams().size() == 0 && drop >= face.since && drop >= stamp_since_;
}

// Whether the kubelet has had time to read the list, and does not.
bool Registrar::starves(const Face& face, Clock::time_point now) const {
  if (!face.endpoint || !kubelet_listens_ || face.resource.feed.streams().size() > 0) return false;
  if (face.way == Way::kCall && face.called != stamp_) return false;  // not registered yet
  return now - std::max({face.until, face.resource.feed.streams().last_end(), stamp_since_}) >
         face.patience;
}

void Registrar::renew(Face& face, Clock::time_point now) const {
  if (!face.budget.take(now)) return;
  face.next_call = {};
  retire(face);
  log(Level::kInfo, "register again",
      {.resource = face.resource.name,
       .error = "another instance ended, or the kubelet has ended the stream"});
}

// Its streams end before the next registration, and the kubelet has a moment to see it: it may take
// the end of any stream of the resource for the end of the client that came last. Its server stays
// for a while, because Allocate may be under way, and the kubelet does not admit a pod whose
// Allocate fails.
void Registrar::retire(Face& face) const {
  if (!face.endpoint) return;
  if (face.resource.feed.streams().size() > 0) face.settled = Clock::now() + kSettle;
  face.endpoint->withdraw();
  face.former = std::move(face.endpoint);
  face.former_until = Clock::now() + kPatience;
}

// A new socket, because the kubelet looks at a name once.
void Registrar::change_way(Face& face, Clock::time_point now) const {
  face.patience = doubled(face.patience, kMostPatience);
  face.since = face.until = now;
  retire(face);
  face.way = face.way == Way::kCall && has_registry() ? Way::kFound : Way::kCall;
  log(Level::kWarning, "register again",
      {.resource = face.resource.name, .error = "the kubelet does not read the list of devices"});
}

void Registrar::listen(Face& face) const {
  if (Clock::now() < face.settled) return;
  face.called.reset();
  if (face.way == Way::kCall && !stamp_) return;  // it would remove the socket when it starts
  face.since = Clock::now();
  face.endpoint = std::make_unique<Endpoint>(
      served_by(face.resource), face.way == Way::kFound ? folders_.registry : folders_.plugins);
  face.until = Clock::now();
  log(Level::kInfo, cat("serve '", face.endpoint->path(), "'"), {.resource = face.resource.name});
}

void Registrar::call(Face& face) {
  if (!face.endpoint || !stamp_ || face.called == stamp_ || Clock::now() < face.next_call) return;
  face.since = Clock::now();
  try {
    kubelet_.register_plugin(face.resource.name, face.endpoint->name());
  } catch (const std::exception&) {
    face.next_call = Clock::now() + face.delay;
    face.delay = doubled(face.delay, kMostDelay);
    throw;
  }
  face.called = stamp_;
  face.until = Clock::now();
  face.failure.clear();
  log(Level::kInfo, "registered by a call", {.resource = face.resource.name});
}

void Registrar::note_failure(Face& face, const std::string& error) const {
  if (stopping_ || face.failure == error) return;
  face.failure = error;
  log(Level::kError, "register", {.resource = face.resource.name, .error = error});
}

}  // namespace devices
