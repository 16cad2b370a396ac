#include "plugins/devices/agent/dra/slices/publisher.h"

#include <malloc.h>

#include <algorithm>
#include <random>
#include <utility>

#include "kubernetes/error.h"
#include "kubernetes/path.h"
#include "libcni/common/error.h"
#include "plugins/devices/agent/dra/slices/withdraw.h"
#include "plugins/devices/agent/log.h"

namespace devices::dra {

namespace {

using cni::cat;
using kubernetes::ApiError;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Links change in bursts: one generation is for all of a second.
constexpr milliseconds kBurst{1000};
constexpr milliseconds kFirstPause{1000}, kLongestPause{60'000};  // after errors, doubled
// A link that comes and goes, or another instance with another config, causes no more than ten
// generations at once, and then one each 6 s: the scheduler reads all slices anew.
constexpr double kTokens = 10;
constexpr milliseconds kRefill{6000};
constexpr std::size_t kMaxStored = 256;  // digests, and UIDs of removed slices

// Nodes that lost the server together do not come back together.
milliseconds with_jitter(milliseconds pause) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return pause / 2 + milliseconds(random() % static_cast<unsigned>(pause.count() / 2 + 1));
}

// Whether any device of the slice has the member.
bool has(const Json& content, const char* member) {
  const auto devices = content.find("devices");
  if (devices == content.end() || !devices->is_array()) return false;
  return std::ranges::any_of(
      *devices, [&](const Json& one) { return one.is_object() && one.contains(member); });
}

std::int64_t count_devices(const std::vector<Json>& contents) {
  std::size_t out = 0;
  for (const Json& one : contents) out += one.value("devices", Json::array()).size();
  return static_cast<std::int64_t>(out);
}

}  // namespace

SlicePublisher::SlicePublisher(const kubernetes::Access& access, Publisher of, const Pools& pools,
                               Surroundings surroundings)
    : of_(std::move(of)),
      pools_(pools),
      surroundings_(std::move(surroundings)),
      client_(access),
      watch_client_(access),
      tokens_(kTokens),
      refilled_(steady_clock::now()),
      follower_([this] { follow(); }),
      writer_([this] { run(); }) {}

SlicePublisher::~SlicePublisher() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  woken_.notify_all();
  client_.stop();
  watch_client_.stop();
  writer_.join();
  follower_.join();
}

void SlicePublisher::wake() {
  {
    const std::lock_guard lock(mutex_);
    is_changed_ = true;
  }
  woken_.notify_all();
}

// The thread that follows.

void SlicePublisher::follow() {
  kubernetes::ListWatch watch(
      watch_client_, slice_objects().path(), selector_of(of_),
      {.listed = [this](const std::vector<Json>& all) { listed(all); },
       .changed = [this](const Json& one) { changed(one); },
       .removed = [this](const Json& one) { removed(one); },
       .failed = [this](const std::exception& e, milliseconds) { note(e); }});
  watch.run();
}

void SlicePublisher::listed(const std::vector<Json>& objects) {
  OwnSlices own;
  for (const Json& object : objects) {
    if (auto one = own_slice(object, of_)) own.insert_or_assign(one->name, std::move(*one));
  }
  {
    const std::lock_guard lock(mutex_);
    for (auto& [name, one] : own) {
      const auto known = own_.find(name);
      if (known != own_.end() && is_older(one.version, known->second.version)) one = known->second;
    }
    if (!std::exchange(is_listed_, true)) {
      std::vector<Json> contents;
      for (const Json& object : objects) contents.push_back(content_of(object));
      last_known_ = attributes_in(contents);
    }
    own_ = std::move(own);
    logged_.clear();
  }
  wake();
}

void SlicePublisher::changed(const Json& object) {
  auto one = own_slice(object, of_);
  if (!one) return;
  {
    const std::lock_guard lock(mutex_);
    Slice& known = own_[one->name];
    if (known.version == one->version || is_older(one->version, known.version)) return;
    known = std::move(*one);
  }
  wake();
}

void SlicePublisher::removed(const Json& object) {
  const auto one = own_slice(object, of_);
  if (!one) return;
  {
    const std::lock_guard lock(mutex_);
    if (gone_.size() == kMaxStored) gone_.clear();
    gone_.insert(one->uid);
    const auto known = own_.find(one->name);
    if (known == own_.end() || known->second.uid != one->uid) return;
    own_.erase(known);
  }
  wake();
}

// The thread that writes.

void SlicePublisher::run() {
  milliseconds back_off = kFirstPause;
  while (wait_for_change()) {
    if (!pause(kBurst)) return;
    try {
      publish();
      back_off = kFirstPause;
    } catch (const std::exception& e) {
      if (client_.is_stopped()) return;
      note(e);
      const auto* const api = dynamic_cast<const ApiError*>(&e);
      const bool is_conflict = api != nullptr && api->is_conflict();
      milliseconds time = with_jitter(is_conflict ? kFirstPause : back_off);
      if (api != nullptr && api->retry_after())
        time = std::max<milliseconds>(time, *api->retry_after());
      if (!is_conflict) back_off = std::min(2 * back_off, kLongestPause);
      wake();
      const bool is_unauthorized = api != nullptr && api->is_unauthorized();
      if (!(is_unauthorized ? client_.wait_for_token(time) : pause(time))) return;
    }
  }
}

// False: the process ends.
bool SlicePublisher::wait_for_change() {
  std::unique_lock lock(mutex_);
  woken_.wait(lock, [this] { return is_stopping_ || (is_changed_ && is_listed_); });
  return !is_stopping_;
}

bool SlicePublisher::pause(milliseconds time) {
  std::unique_lock lock(mutex_);
  return !woken_.wait_for(lock, time, [this] { return is_stopping_; });
}

// Whether a change may be written now, which takes a token. Else it is made again later.
bool SlicePublisher::has_turn() {
  const auto now = steady_clock::now();
  tokens_ = std::min(kTokens, tokens_ + std::chrono::duration<double>(now - refilled_) /
                                            std::chrono::duration<double>(kRefill));
  refilled_ = now;
  if (tokens_ >= 1) {
    tokens_ -= 1;
    return true;
  }
  wake();
  pause(kRefill);
  return false;
}

void SlicePublisher::publish() {
  LastKnown last_known;
  {
    const std::lock_guard lock(mutex_);
    is_changed_ = false;
    last_known = last_known_;
  }
  const Stock stock = surroundings_.stock();
  const auto contents = wanted_slices({pools_, stock, of_.driver, features_}, last_known);
  Wish wish{.of = of_, .digests = {}, .owner = owner_};
  for (const Json& content : contents) {
    std::string digest = digest_of(content);
    const auto stored = stored_as_.find(digest);
    wish.digests.push_back(stored == stored_as_.end() ? std::move(digest) : stored->second);
  }
  {
    const std::lock_guard lock(mutex_);
    last_known_ = attributes_in(contents);
  }
  if (!plan(wish).empty()) {
    if (!has_turn()) return;
    owner_ = client_.get(kubernetes::Collection{"v1", "nodes"}.path_of(of_.node))
                 .at("metadata")
                 .value("uid", "");
    wish.owner = owner_;
    carry_out(plan(wish), wish, contents);
    ::malloc_trim(0);  // of 500 devices the texts and objects are megabytes
  }
  note_published(wish, contents);
}

Plan SlicePublisher::plan(Wish& wish) {
  const std::lock_guard lock(mutex_);
  wish.generation = highest_;
  return plan_of(own_, wish);
}

void SlicePublisher::carry_out(const Plan& plan, const Wish& wish,
                               const std::vector<Json>& contents) {
  {
    const std::lock_guard lock(mutex_);
    highest_ = remembered(std::max(highest_, plan.generation));
  }
  for (const Plan::Write& one : plan.writes) write(plan, one, wish, contents[one.place]);
  for (const Slice& one : plan.removals) {
    try {
      client_.remove(slice_objects().path_of(one.name), {.uid = one.uid});
    } catch (const ApiError& e) {
      if (e.is_conflict()) read_again(one.name);
      if (!e.is_not_found()) throw;
    }
    const std::lock_guard lock(mutex_);
    own_.erase(one.name);
  }
  if (plan.removals.empty()) return;
  wake();  // one of them may have had the name of a slice that is to be created
}

void SlicePublisher::write(const Plan& plan, const Plan::Write& write, const Wish& wish,
                           const Json& content) {
  const Json object = object_of(plan, write, wish, content);
  forget_removals();
  Json answer;
  try {
    answer = write.version.empty() ? client_.create(slice_objects().path(), object)
                                   : client_.replace(slice_objects().path_of(write.name), object);
  } catch (const ApiError& e) {
    if (e.is_conflict() || e.is_not_found()) read_again(write.name);
    throw;
  }
  learn(content, content_of(answer));
  auto stored = own_slice(answer, of_);
  if (!stored)
    throw cni::Error(cni::Code::kDecodingFailure,
                     cat("write slice '", write.name, "': the answer is another slice"));
  const std::lock_guard lock(mutex_);
  logged_.clear();
  know(std::move(*stored));
}

// Of what is removed while a request runs, the watch may tell before the answer arrives.
void SlicePublisher::forget_removals() {
  const std::lock_guard lock(mutex_);
  gone_.clear();
}

// With the mutex. What an answer says is older than what the watch has said.
void SlicePublisher::know(Slice stored) {
  if (gone_.contains(stored.uid)) {
    is_changed_ = true;
    return;
  }
  Slice& known = own_[stored.name];
  if (!is_older(stored.version, known.version)) known = std::move(stored);
}

void SlicePublisher::read_again(const std::string& name) {
  forget_removals();
  try {
    auto one = own_slice(client_.get(slice_objects().path_of(name)), of_);
    if (!one) {
      throw cni::Error(cni::Code::kInvalidConfig,
                       cat("write slice '", name, "': it belongs to another driver or node"));
    }
    const std::lock_guard lock(mutex_);
    know(std::move(*one));
  } catch (const ApiError& e) {
    if (!e.is_not_found()) throw;
    const std::lock_guard lock(mutex_);
    own_.erase(name);
  }
}

// With a feature gate off the server drops fields. What it changes else is taken as it is, because
// it would change that the next time, too.
void SlicePublisher::learn(const Json& sent, const Json& answer) {
  const Features before = features_;
  const auto keeps = [&](const char* member) { return !has(sent, member) || has(answer, member); };
  features_.taints &= keeps("taints");
  features_.counters &= keeps("consumesCounters");
  features_.shares &= keeps("allowMultipleAllocations");
  const auto digest = digest_of(sent), stored = digest_of(answer);
  if (stored_as_.size() == kMaxStored) stored_as_.clear();
  if (digest != stored) stored_as_[digest] = stored;
  if (features_ == before) return;
  log(Level::kError, "publish slices without devices that need fields which the API server drops",
      {.error = cat("feature gates that are off:", features_.taints ? "" : " DRADeviceTaints",
                    features_.counters ? "" : " DRAPartitionableDevices",
                    features_.shares ? "" : " DRAConsumableCapacity")});
  wake();
}

// From both threads. An outage of hours is one line of the log.
void SlicePublisher::note(const std::exception& error) {
  SliceState state;
  {
    const std::lock_guard lock(mutex_);
    if (is_stopping_) return;
    ++state_.errors;
    if (logged_ != error.what()) log(Level::kWarning, "publish slices", {.error = error.what()});
    logged_ = error.what();
    state_.error = error.what();
    state = state_;
  }
  surroundings_.published(state);
}

void SlicePublisher::note_published(const Wish& wish, const std::vector<Json>& contents) {
  SliceState state;
  {
    const std::lock_guard lock(mutex_);
    const SliceState before = state_;
    state_.generation = highest_generation(own_);
    highest_ = remembered(std::max(highest_, state_.generation));
    state_.slices = static_cast<std::int64_t>(wish.digests.size());
    state_.devices = count_devices(contents);
    state_.error.clear();
    if (state_ == before) return;
    state = state_;
  }
  log(Level::kInfo, cat("published ", state.devices, " devices in ", state.slices,
                        " slices, generation ", state.generation));
  surroundings_.published(state);
}

}  // namespace devices::dra
