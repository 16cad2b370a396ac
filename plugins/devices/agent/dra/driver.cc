#include "plugins/devices/agent/dra/driver.h"

#include <sys/inotify.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <utility>

#include "kubernetes/error.h"
#include "kubernetes/path.h"
#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "plugins/devices/agent/dra/names.h"
#include "plugins/devices/agent/dra/slices/withdraw.h"
#include "plugins/devices/agent/log.h"

namespace devices::dra {

namespace {

using cni::cat;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Of one call of the kubelet, the first claim may wait for the API server for half of the time.
constexpr milliseconds kApi{20'000}, kQuickApi{4'000};
constexpr std::size_t kThreads = 4;

constexpr milliseconds kPoll{1'000}, kQuietPoll{30'000}, kBetween{100};
constexpr milliseconds kUpgradePoll{200};  // another instance may be killed
constexpr milliseconds kSettle{100};       // the kubelet sees that a socket went
constexpr seconds kPatience{10}, kMostPatience{300};

kubernetes::Limits limits(milliseconds deadline) {
  return {.connect = deadline, .deadline = deadline, .body = kMaxClaimBytes};
}

std::string prefix_of(const std::string& driver) { return cat(driver, "-"); }

}  // namespace

Driver::Driver(Core& core, const std::string& dir, const std::string& plugin_dir)
    : core_(core),
      conf_(core.pools().dra.value()),
      registry_(cat(dir, "/plugins_registry")),
      client_(access_of(conf_), limits(kApi)),
      quick_client_(access_of(conf_), limits(kQuickApi)),
      preparer_(core, {.driver = conf_.driver,
                       .node = conf_.node,
                       .plugin_dir = plugin_dir,
                       .source = [this](const NamedClaim& claim,
                                        milliseconds most) { return ask(claim, most); }}),
      preparing_(kMaxWaitingCalls, kThreads),
      releasing_(kMaxWaitingCalls),
      health_(conf_.node),
      kubelet_(cat(dir, "/device-plugins/kubelet.sock")),
      others_({registry_}, prefix_of(conf_.driver)),
      patience_(kPatience),
      watch_(IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF) {
  publish_health();
  if (watch_.fd() >= 0) {
    loop_.watch(watch_.fd(), [this] {
      watch_.take();
      look_soon();
    });
  }
  loop_.at(cni::EventLoop::now(), this, [this] { look(); });
  thread_ = std::thread([this] {
    loop_.run([](const std::exception& e) { log(Level::kError, "register", {.error = e.what()}); });
  });
}

// The endpoints wait for calls that wait for the workers, and those for the API server.
Driver::~Driver() {
  client_.stop();
  quick_client_.stop();
  loop_.stop();
  thread_.join();
  former_.clear();
  endpoints_.clear();
  preparing_.stop();
  releasing_.stop();
}

void Driver::wake() {
  loop_.post([this] { publish_health(); });
}

nlohmann::json Driver::ask(const NamedClaim& claim, milliseconds most) {
  const kubernetes::Collection claims{"resource.k8s.io/v1", "resourceclaims", claim.space};
  kubernetes::Client& client = most >= kApi ? client_ : quick_client_;
  try {
    return client.get(claims.path_of(claim.name));
  } catch (const kubernetes::ApiError& e) {
    if (e.is_not_found()) throw NoSuchClaim();
    throw;
  }
}

void Driver::publish_health() {
  std::map<std::string, bool> healthy;
  const Stock stock = core_.stock();
  const auto& pools = core_.pools().pools;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    if (pools[i].device_plugin) continue;
    const bool is_one = is_shared(pools[i]);
    for (const auto& [id, item] : stock.pools[i]) {
      const std::string whole =
          is_one ? shared_id(pools[i].slots.front().parent, pools[i].type()) : id;
      healthy[device_name(whole)] |= item.offer.healthy;
    }
  }
  health_.publish(healthy, static_cast<std::int64_t>(std::time(nullptr)));
}

// Someone may make names without an end.
void Driver::look_soon() {
  if (!std::exchange(is_near_, true)) loop_.after(kBetween, &is_near_, [this] { look(); });
}

void Driver::look() {
  is_near_ = false;
  const auto pause = pass();
  report();
  loop_.after(std::max(pause, kBetween), this, [this] { look(); });
  if (watch_.is_new(registry_)) look_soon();
}

// Returns when to look again, if nothing happens.
milliseconds Driver::pass() {
  const auto now = Clock::now();
  while (!former_.empty() && now > former_.front().until) former_.pop_front();
  find_kubelet(now);
  others_.look(now);
  for (std::size_t i = endpoints_.size(); i-- > 0;) {
    if (!endpoints_[i]->is_in_place()) retire(i, now);
  }
  if (endpoints_.empty()) is_registered_ = false;
  if (has_to_renew(now)) {
    if (endpoints_.size() > 1) retire(0, now);
    if (now < settled_) return kSettle;
    try {
      listen(now);
    } catch (const std::exception& e) {
      note(e.what());
    }
  }
  if (others_.any()) return kUpgradePoll;
  return is_registered_ ? kQuietPoll : kPoll;
}

// A kubelet that has started finds the sockets by itself.
void Driver::find_kubelet(Clock::time_point now) {
  const auto stamp = kubelet_.stamp();
  if (stamp == stamp_) return;
  const bool is_first = !std::exchange(stamp_, stamp);
  if (is_first && is_registered_) return;
  since_ = now;
  is_registered_ = is_confirmed_ = false;
  patience_ = kPatience;
}

// By the kubelet of that stamp, whose start a pass may not have seen yet.
void Driver::note_answer(const std::optional<KubeletSocket::Stamp>& stamp, bool is_registered) {
  stamp_ = stamp;
  is_registered_ = is_confirmed_ = is_registered;
  if (is_confirmed_) patience_ = kPatience;
  report();
}

// There is no socket; or a kubelet before 1.33, which knows one instance, has forgotten this one
// with another that ended; or the kubelet has had time to register it, and has not. A socket that
// serves stays beside the new one, so that later kubelets have one at all times.
bool Driver::has_to_renew(Clock::time_point now) const {
  return endpoints_.empty() || others_.last_end() >= since_ || starves(now);
}

bool Driver::starves(Clock::time_point now) const {
  return !is_confirmed_ && now - since_ > patience_ && stamp_ && kubelet_.has_listener();
}

// Calls that are under way are answered.
void Driver::retire(std::size_t index, Clock::time_point now) {
  const auto which = endpoints_.begin() + static_cast<std::ptrdiff_t>(index);
  (*which)->withdraw();
  former_.push_back({std::move(*which), now + kAnswerWithin});
  endpoints_.erase(which);
  settled_ = now + kSettle;
}

void Driver::listen(Clock::time_point now) {
  if (!endpoints_.empty() && starves(now)) {
    patience_ = std::min(patience_ * 2, kMostPatience);
    log(Level::kWarning, "register again",
        {.resource = conf_.driver, .error = "the kubelet has not registered the driver"});
  }
  since_ = now;
  is_confirmed_ = false;
  endpoints_.push_back(std::make_unique<Endpoint>(served(), registry_));
  error_.clear();
  log(Level::kInfo, cat("serve '", endpoints_.back()->path(), "'"), {.resource = conf_.driver});
}

Served Driver::served() {
  const auto health = std::make_shared<HealthService>(health_);
  return {.type = "DRAPlugin",
          .name = conf_.driver,
          .versions = {"v1.DRAPlugin", "v1beta1.DRAPlugin", "v1alpha1.DRAResourceHealth"},
          .prefix = prefix_of(conf_.driver),
          .ending = "-reg.sock",
          .services = {std::make_shared<DraPlugin>(work_), std::make_shared<DraPluginBeta>(work_),
                       health},
          .end_streams = [&health = *health] { health.end_streams(); },
          .registered =
              [this](const std::string& error) {
                loop_.post([this, stamp = kubelet_.stamp(), is_registered = error.empty()] {
                  note_answer(stamp, is_registered);
                });
              }};
}

// Once, until a socket is there: each attempt has another one, whose name is in the error.
void Driver::note(const std::string& error) {
  if (!error_.empty()) return;
  error_ = error;
  log(Level::kError, "register", {.resource = conf_.driver, .error = error});
}

// For `status` and the metrics: without it no pod gets a device of a claim.
void Driver::report() {
  for (const Pool& pool : core_.pools().pools) {
    if (!pool.device_plugin) core_.note_read(pool.resource, is_registered_);
  }
}

}  // namespace devices::dra
