#include "plugins/devices/agent/socket/server.h"

#include <cstdlib>
#include <utility>

#include "plugins/devices/agent/log.h"
#include "plugins/devices/protocol/message.h"

namespace devices {

namespace {

constexpr std::size_t kMaxConnections = 64;
// An answer waits for the kubelet, which takes some of them at once only.
constexpr std::size_t kThreads = 4;

/// What the kubelet says of a pod; empty: it does not know it.
struct Known {
  Moment asked;
  std::optional<PodDevices> pod;
};

// The kubelet is asked also where the ledger has devices of a pod of that name. It alone knows
// whether this is that pod or its successor without devices, for which there was no Allocate.
Answer claim(Core& core, const Known& known, const Pod& pod, const Unlisted& unlisted) {
  // A kubelet that has just started: a runtime goes on with what the earlier one has asked for.
  if (!known.pod) {
    throw cni::Error(cni::Code::kTryAgainLater,
                     cni::cat("claim devices for ", pod.str(), ": the kubelet does not know it"),
                     "it has just started, or the pod was removed");
  }
  PodDevices listed = *known.pod;
  if (unlisted) {
    for (Owned& one : unlisted(pod, known.pod->devices)) listed.devices.push_back(std::move(one));
  }
  return {.devices = core.claim(pod, listed, known.asked)};
}

Answer status(const Core& core) {
  Answer out;
  for (const Count& one : core.counts()) {
    out.resources.push_back({one.resource, static_cast<std::int64_t>(one.devices),
                             static_cast<std::int64_t>(one.healthy), one.is_read});
  }
  if (const auto slices = core.slices()) {
    out.slices = {slices->generation, slices->slices, slices->devices, slices->error};
  }
  return out;
}

// A line; an error where the function throws.
template <class Fn>
std::string line_by(Verb verb, Fn&& fn) {
  Answer answer;
  try {
    answer = cni::as_error(fn);
  } catch (const cni::Error& e) {
    answer.error = e;
  }
  return line_of(verb, answer);
}

void end_process(const std::exception& e) {
  log(Level::kError, "end, because nobody reaches the socket", {.error = e.what()});
  std::_Exit(EXIT_FAILURE);
}

}  // namespace

SocketServer::SocketServer(const std::string& path, Core& core, PodResources& pods,
                           Unlisted unlisted)
    : core_(core),
      pods_(pods),
      unlisted_(std::move(unlisted)),
      lines_(
          loop_, path, [this](std::uint64_t client, const std::string& line) { ask(client, line); },
          end_process),
      workers_(kMaxConnections, kThreads),
      thread_([this] {
        loop_.run([](const std::exception& e) {
          log(Level::kError, "serve the socket", {.error = e.what()});
        });
      }) {}

SocketServer::~SocketServer() {
  is_stopping_ = true;  // questions that wait are dropped
  workers_.stop();
  loop_.stop();
  thread_.join();
}

// An answer that waits for the kubelet comes from another thread.
void SocketServer::ask(std::uint64_t number, const std::string& line) {
  Question question;
  bool is_later = false;
  const std::string text = line_by(question.verb, [&] {
    question = question_in(line);
    is_later = question.verb != Verb::kClaim || core_.concerns(question.pod);
    return Answer{};
  });
  if (!is_later) return lines_.answer(number, text);
  if (question.verb != Verb::kClaim) {
    return workers_.post_always(
        [this, number] { finish(number, line_by(Verb::kStatus, [&] { return status(core_); })); });
  }
  {
    const std::lock_guard hold(mutex_);
    waiting_.push_back({number, question.pod});
  }
  workers_.post_always([this] { look_up(); });
}

// One list answers all who wait by now. The kubelet takes some calls a second only, and a pod of a
// crowd would else wait for those of all others.
void SocketServer::look_up() {
  std::vector<Waiting> all;
  {
    const std::lock_guard hold(mutex_);
    all.swap(waiting_);
  }
  if (all.empty() || is_stopping_) return;  // an earlier look was for it
  if (all.size() == 1) return claim_one(all.front(), {});
  auto listed = std::make_shared<Listed>();
  try {
    listed->pods = cni::as_error([&] { return pods_.list(); });
  } catch (const cni::Error& e) {
    listed->error = e;
  }
  // The answer of one may wait for the API server.
  for (const Waiting& one : all) {
    workers_.post_always([this, one, listed] { claim_one(one, listed); });
  }
}

// Without a list the kubelet is asked for the pod alone, as where the list is too large.
void SocketServer::claim_one(const Waiting& one, const std::shared_ptr<const Listed>& listed) {
  if (is_stopping_) return;
  finish(one.number, line_by(Verb::kClaim, [&] {
           const bool is_failed = listed && listed->error;
           if (is_failed && listed->error->code() == cni::Code::kTryAgainLater)
             throw *listed->error;
           Known known{moment_now(), {}};
           if (listed && !is_failed) {
             known = {listed->asked, pod_in(listed->pods, one.pod.space, one.pod.name)};
           } else {
             known.pod = pods_.get(one.pod.space, one.pod.name);
           }
           return claim(core_, known, one.pod, unlisted_);
         }));
}

void SocketServer::finish(std::uint64_t number, std::string line) {
  loop_.post([this, number, text = std::move(line)] { lines_.answer(number, text); });
}

}  // namespace devices
