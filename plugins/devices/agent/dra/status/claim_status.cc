#include "plugins/devices/agent/dra/status/claim_status.h"

#include <sys/inotify.h>

#include <algorithm>
#include <ctime>
#include <random>
#include <utility>

#include "kubernetes/answer.h"
#include "kubernetes/error.h"
#include "kubernetes/path.h"
#include "libcni/common/error.h"
#include "plugins/devices/agent/dra/claim.h"
#include "plugins/devices/agent/log.h"
#include "plugins/devices/agent/memory.h"

namespace devices::dra {

namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kEvents = IN_CREATE | IN_MODIFY | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE;
constexpr int kMaxConflicts = 5;  // one after the other, of one claim: then it waits as for others

constexpr std::size_t kMaxForbidden = 64;
/// Claims that were unprepared, and of which the API server refuses each call.
constexpr std::size_t kMaxGone = 1'000;
constexpr milliseconds kTokenPoll{1'000};

// What is the same for all claims of the error of a call that RBAC refuses: "cannot patch resource
// ...".
std::string part_of_rbac(const std::string& error) {
  const auto at = error.find(" cannot ");
  return at == error.npos ? error : error.substr(at);
}

// An object of that name with another UID is another claim. One with another name is no answer, as
// of a proxy that is broken.
bool is_of(const Json& object, const Claim& claim) {
  const auto is = [&](const char* key, const std::string& expected) {
    return kubernetes::metadata_of(object, key) == expected;
  };
  if (!is("name", claim.name) || !is("namespace", claim.space)) {
    throw cni::Error(cni::Code::kDecodingFailure,
                     "the API server has answered with another object");
  }
  return is("uid", claim.uid);
}

// 2^failures times the first, and up to a half more: agents of all nodes ask again after an outage.
milliseconds backoff(int failures, const ClaimStatus::Times& times) {
  thread_local std::minstd_rand random{std::random_device{}()};
  const milliseconds base =
      std::min(times.first * (1 << std::clamp(failures - 1, 0, 16)), times.most);
  return base + milliseconds(
                    std::uniform_int_distribution<milliseconds::rep>(0, base.count() / 2)(random));
}

}  // namespace

ClaimStatus::ClaimStatus(kubernetes::Access access, StatusOwner of, const std::string& ledger,
                         const Times& times)
    : of_(std::move(of)),
      times_(times),
      ledger_(Ledger::create(ledger)),
      changes_(kEvents),
      client_(std::move(access), {.body = kMaxClaimBytes * 4}),  // others may have annotated it
      thread_([this] {
        loop_.post([this] { watch(); });
        loop_.post([this] { look(); });
        loop_.run([](const std::exception& e) {
          log(Level::kError, "write status of claims", {.error = e.what()});
        });
      }) {}

ClaimStatus::~ClaimStatus() {
  client_.stop();
  loop_.stop();
  thread_.join();
}

// In the thread: it looks soon after a change, and from time to time where it cannot see one.
void ClaimStatus::watch() {
  loop_.after(times_.verify, &of_verify_, [this] { verify(); });
  if (!changes_.add(ledger_.path())) return;
  loop_.watch(changes_.fd(), [this] {
    changes_.take();
    // Not later with each change: where they never end, all of them would wait.
    if (!std::exchange(is_near_, true)) loop_.after(times_.burst, &of_look_, [this] { look(); });
  });
}

void ClaimStatus::look() {
  is_near_ = false;
  // Also where the node has no more watches, or this look fails.
  loop_.after(times_.poll, &of_look_, [this] { look(); });
  std::map<std::string, std::vector<Json>> devices;
  for (const auto& [id, entry] : entries_.all()) {
    if (!entry.claim || !entry.is_readable()) continue;
    devices[entry.claim->uid].push_back(device_status(entry, of_));
    targets_[entry.claim->uid].claim = *entry.claim;
  }
  const std::size_t prepared = devices.size();
  for (auto& [uid, target] : targets_) {
    std::vector<Json> now = std::move(devices[uid]);
    if (now == target.devices && (target.is_written || target.failures != 0)) continue;
    target.devices = std::move(now);
    target.is_written = false;
    if (target.failures == 0) target.due = cni::EventLoop::now();
  }
  if (targets_.size() > prepared + kMaxGone) {
    std::erase_if(targets_, [](const auto& one) { return one.second.devices.empty(); });
  }
  schedule();
}

// Another client may have changed what was written.
void ClaimStatus::verify() {
  for (auto& [uid, target] : targets_) target.is_written = false;
  loop_.after(times_.verify, &of_verify_, [this] { verify(); });
  schedule();
}

void ClaimStatus::schedule() {
  cni::BootTime due = cni::kNever;
  for (const auto& [uid, target] : targets_) {
    if (!target.is_written) due = std::min(due, std::max(target.due, not_before_));
  }
  loop_.at(due, &of_write_, [this] { write_next(); });
}

// One claim, so that changes of the ledger are seen in between; the one that has waited longest, so
// that none which fails again and again is always the first.
void ClaimStatus::write_next() {
  const auto now = cni::EventLoop::now();
  const auto next = std::ranges::min_element(targets_, {}, [](const auto& one) {
    return one.second.is_written ? cni::kNever : one.second.due;
  });
  const bool is_due = next != targets_.end() && !next->second.is_written && next->second.due <= now;
  if (is_due && not_before_ <= now) {
    write(next->second);
    trim_after_much();
    if (next->second.is_written && next->second.devices.empty()) targets_.erase(next);
  }
  schedule();
}

void ClaimStatus::write(Target& target) try {
  write_once(target);
  target.is_written = true;
  target.failures = target.refusals = absences_ = 0;
  bool is_back = std::exchange(is_absence_logged_, false);
  is_back |= forbidden_.erase(part_of_rbac(std::exchange(target.error, {}))) != 0;
  if (is_back) log(Level::kInfo, "write status of claims again");
} catch (const std::exception& e) {
  if (!client_.is_stopped()) fail(target, e);
}

void ClaimStatus::write_once(const Target& target) {
  const kubernetes::Collection claims{"resource.k8s.io/v1", "resourceclaims", target.claim.space};
  for (int conflicts = 0;; ++conflicts) {
    try {
      const Json claim = client_.get(claims.path_of(target.claim.name));
      if (!is_of(claim, target.claim)) return;
      const Json devices =
          with_devices(claim, target.devices, of_, static_cast<std::int64_t>(std::time(nullptr)));
      if (devices == devices_of(claim)) return;
      // Without the devices of others as they were read, the version would have to be another.
      const std::string version = kubernetes::metadata_of(claim, "resourceVersion");
      const Json patch = {{"metadata", {{"resourceVersion", version}}},
                          {"status", {{"devices", devices}}}};
      is_of(client_.merge_patch(claims.path_of(target.claim.name, "status"), patch), target.claim);
      return;
    } catch (const kubernetes::ApiError& e) {
      if (e.is_not_found()) return;
      if (!e.is_conflict() || conflicts == kMaxConflicts) throw;
    }
    if (!client_.wait(backoff(1, {.first = milliseconds(20 << conflicts), .most = times_.first})))
      return;
  }
}

// Of a server that is absent or busy all claims wait, and of one that refuses the token, else this
// one. It may be busy for this one alone, as with a webhook that fails: the next attempt is another
// claim's.
void ClaimStatus::fail(Target& target, const std::exception& error) {
  const auto now = cni::EventLoop::now();
  const auto* const answer = dynamic_cast<const kubernetes::ApiError*>(&error);
  const bool is_unauthorized = answer != nullptr && answer->is_unauthorized();
  const bool is_conflict = answer != nullptr && answer->is_conflict();
  const bool is_absent =
      is_unauthorized || (answer != nullptr && answer->is_passing() && !is_conflict);
  const bool is_refused = answer != nullptr && !is_absent && !is_conflict;
  ++target.failures;
  // A server that has just started refuses everything until it has read the rules of RBAC.
  const bool is_starting =
      is_refused && answer->is_forbidden() && now - absent_at_ < times_.starting;
  const Times refusals{.first = times_.refused, .most = times_.most_refused};
  target.due = now + (is_starting  ? backoff(1, times_)
                      : is_refused ? backoff(++target.refusals, refusals)
                                   : backoff(target.failures, times_));
  if (is_absent) {
    absent_at_ = now;
    const milliseconds asked = answer->retry_after().value_or(std::chrono::seconds(0));
    not_before_ = now + std::max(backoff(++absences_, times_), asked);
  }
  if (is_unauthorized) await_token();
  if (!is_news(target, answer, error.what()) || (is_absent && is_absence_logged_)) return;
  is_absence_logged_ |= is_absent;
  log(Level::kWarning, "write status of claim '" + target.claim.str() + "'",
      {.error = error.what()});
}

// A server that is absent for hours is one line of the log, a claim that is refused another, and
// what RBAC refuses is one for all claims.
bool ClaimStatus::is_news(Target& target, const kubernetes::ApiError* answer,
                          const std::string& error) {
  if (std::exchange(target.error, error) == error) return false;
  if (answer == nullptr || !answer->is_forbidden()) return true;
  if (forbidden_.size() >= kMaxForbidden) forbidden_.clear();
  return forbidden_.insert(part_of_rbac(error)).second;
}

// A token that the kubelet has written anew meanwhile ends the wait.
void ClaimStatus::await_token() {
  const auto now = cni::EventLoop::now();
  if (!client_.has_new_token()) {
    if (not_before_ > now) loop_.after(kTokenPoll, &of_token_, [this] { await_token(); });
    return;
  }
  not_before_ = now;
  for (auto& [uid, target] : targets_) target.due = std::min(target.due, now);
  schedule();
}

}  // namespace devices::dra
