#include "plugins/devices/agent/kubelet/registrar.h"

#include <algorithm>
#include <utility>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "plugins/devices/agent/log.h"

namespace devices {

namespace {

using cni::cat;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kPoll{5'000};        // a change that inotify did not report
constexpr milliseconds kQuietPoll{30'000};  // while the kubelet reads all lists
constexpr milliseconds kBetween{100};       // two passes: someone may make names without an end
// How long the kubelet has to read a list before it is registered again. A kubelet looks for
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

// A resource, as it is registered.
struct Registrar::Face {
  const Resource& resource;
  Way way;
  std::unique_ptr<Endpoint> endpoint = {};
  std::unique_ptr<Endpoint> former = {};  // serves calls that are under way
  Clock::time_point former_until = {};
  Clock::time_point since = {};                     // the registration
  seconds patience = kPatience;                     // with it
  Clock::time_point next_call = {};                 // of Register
  seconds delay = kFirstDelay;                      // after a failure
  std::optional<KubeletSocket::Stamp> called = {};  // the kubelet that answered Register
  std::string failure = {};                         // the last one, which is reported once
};

Registrar::Registrar(Folders folders, const std::vector<const Resource*>& resources)
    : folders_(std::move(folders)),
      kubelet_(cat(folders_.plugins, "/kubelet.sock")),
      watch_({folders_.plugins, folders_.registry}) {
  for (const Resource* const resource : resources) {
    for (const std::string& folder : {folders_.plugins, folders_.registry}) {
      Endpoint::remove_stale(folder, resource->name);
    }
    faces_.push_back(std::make_unique<Face>(Face{.resource = *resource, .way = Way::kFound}));
  }
  for (const auto& face : faces_) face->resource.feed.on_end([this] { watch_.wake(); });
  thread_ = std::thread([this] { run(); });
}

Registrar::~Registrar() {
  stopping_ = true;
  kubelet_.stop();
  watch_.wake();
  thread_.join();
  for (const auto& face : faces_) {  // their streams end, and wake
    face->former.reset();
    face->endpoint.reset();
  }
  for (const auto& face : faces_) face->resource.feed.on_end({});
}

void Registrar::run() {
  std::vector<std::string> removed;
  while (!stopping_) {
    const auto next = pass(removed);
    std::this_thread::sleep_for(kBetween);
    removed = watch_.wait(next);
  }
}

// Returns when to look again, if nothing happens.
milliseconds Registrar::pass(const std::vector<std::string>& removed) {
  if (const auto stamp = kubelet_.stamp(); stamp != stamp_) {
    stamp_ = stamp;
    stamp_since_ = Clock::now();
    for (const auto& face : faces_) {
      face->next_call = {};
      face->delay = kFirstDelay;
    }
  }
  bool all_read = true;
  for (const auto& face : faces_) {
    // Kubelets that keep one client for a resource drop this one's when another instance of the
    // agent ends.
    const std::string begin = Endpoint::prefix(face->resource.name);
    for (const std::string& name : removed) {
      const bool ours = face->endpoint && face->endpoint->name() == name;
      if (!ours && name.compare(0, begin.size(), begin) == 0) retire(*face);
    }
    if (stopping_) break;
    attend(*face);
    all_read = all_read && face->resource.feed.size() > 0;
  }
  return all_read ? kQuietPoll : stamp_ ? milliseconds(kFirstDelay) : kPoll;
}

void Registrar::attend(Face& face) {
  const auto now = Clock::now();
  if (face.former && now > face.former_until) face.former.reset();
  if (face.resource.feed.size() > 0) {
    face.patience = kPatience;
    face.delay = kFirstDelay;
  }
  if (face.way == Way::kFound && !has_registry()) {
    face.way = Way::kCall;
    retire(face);
  }
  if (face.endpoint && !face.endpoint->is_in_place()) retire(face);
  if (starves(face, now)) change_way(face, now);
  try {
    if (!face.endpoint) listen(face);
    if (face.way == Way::kCall) call(face);
  } catch (const std::exception& e) {
    note_failure(face, e.what());
  }
}

bool Registrar::has_registry() const { return cni::Dir::exists(folders_.registry); }

// Whether the kubelet has had time to read the list, and does not.
bool Registrar::starves(const Face& face, Clock::time_point now) const {
  if (!face.endpoint || !stamp_ || face.resource.feed.size() > 0) return false;
  if (face.way == Way::kCall && face.called != stamp_) return false;  // not registered yet
  return now - std::max({face.since, face.resource.feed.last_end(), stamp_since_}) > face.patience;
}

// Its streams end before the next registration: a kubelet may take the end of any stream of the
// resource for the end of the plugin. Its server stays for a while, because Allocate may be under
// way, and the kubelet does not admit a pod whose Allocate fails.
void Registrar::retire(Face& face) const {
  if (!face.endpoint) return;
  face.endpoint->withdraw();
  face.former = std::move(face.endpoint);
  face.former_until = Clock::now() + kPatience;
}

// A new socket, because the kubelet looks at a name once.
void Registrar::change_way(Face& face, Clock::time_point now) const {
  face.patience = doubled(face.patience, kMostPatience);
  face.since = now;
  retire(face);
  face.way = face.way == Way::kCall && has_registry() ? Way::kFound : Way::kCall;
  log(Level::kWarning, "register again",
      {.resource = face.resource.name, .error = "the kubelet does not read the list of devices"});
}

void Registrar::listen(Face& face) const {
  face.called.reset();
  if (face.way == Way::kCall && !stamp_) return;  // it would remove the socket when it starts
  face.endpoint = std::make_unique<Endpoint>(
      face.resource, face.way == Way::kFound ? folders_.registry : folders_.plugins);
  face.since = Clock::now();
  log(Level::kInfo, cat("serve '", face.endpoint->path(), "'"), {.resource = face.resource.name});
}

void Registrar::call(Face& face) {
  if (!face.endpoint || !stamp_ || face.called == stamp_ || Clock::now() < face.next_call) return;
  try {
    kubelet_.register_plugin(face.resource.name, face.endpoint->name());
  } catch (const std::exception&) {
    face.next_call = Clock::now() + face.delay;
    face.delay = doubled(face.delay, kMostDelay);
    throw;
  }
  face.called = stamp_;
  face.since = Clock::now();
  face.failure.clear();
  log(Level::kInfo, "registered by a call", {.resource = face.resource.name});
}

void Registrar::note_failure(Face& face, const std::string& error) const {
  if (stopping_ || face.failure == error) return;
  face.failure = error;
  log(Level::kError, "register", {.resource = face.resource.name, .error = error});
}

}  // namespace devices
