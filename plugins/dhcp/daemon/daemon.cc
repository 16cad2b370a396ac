#include "plugins/dhcp/daemon/daemon.h"

#include <sys/inotify.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "libcni/common/undo.h"
#include "plugins/dhcp/protocol/conf.h"

namespace dhcp {

namespace {

using cni::cat;
using cni::Request;
using nlohmann::ordered_json;

// The daemon parses the request itself, because the plugin may be the reference plugins'.
Request request_of(const Call& call, const char* command) {
  cni::Env env{{"CNI_COMMAND", command},  {"CNI_CONTAINERID", call.container_id},
               {"CNI_NETNS", call.netns}, {"CNI_IFNAME", call.ifname},
               {"CNI_ARGS", call.args},   {"CNI_PATH", "/"}};
  Request out;
  out.read_environment(env);
  out.read_config(call.input);
  return out;
}

// A DEL needs no more than the names.
Request names_of(const Call& call) { return request_of(call, "DEL"); }

std::string file_of(const Request& request) { return request.key().tag(); }

State state_of(const Request& request, const Conf& conf, const Flags& flags) {
  State out{.owner = plugins::state_owner(request),
            .identity = {.client_id = client_id_of(request),
                         .provided = conf.provided,
                         .wanted = conf.wanted,
                         .broadcast = flags.broadcast,
                         .probe = conf.probe},
            .priority = conf.priority,
            .dns = conf.dns};
  out.owner.netns = flags.host_prefix + request.netns;
  return out;
}

// Whether the lease is of the interface that the pod has now, and was asked for alike.
bool still_holds(const State& known, State wanted) {
  const auto pod = find_pod(known);
  if (!known.lease || !pod || pod->link.name != wanted.owner.key.ifname) return false;
  wanted.identity.broadcast = known.identity.broadcast;
  return known.owner.netns == wanted.owner.netns && known.identity == wanted.identity &&
         known.priority == wanted.priority && known.dns == wanted.dns;
}

// A file of a later format, or of another version, is that version's: take_over() has left it.
void require_understood(const StateDir& states, const plugins::StateOwner& owner) {
  static_cast<void>(states.read(owner));
}

// Seconds from now; null is never.
ordered_json seconds_until(Time when, Time now) {
  if (when == kNever) return nullptr;
  return std::max<std::int64_t>(
      0, std::chrono::duration_cast<std::chrono::seconds>(when - now).count());
}

// The output of `dhcp leases`.
std::string leases_json(const std::vector<const Attachment*>& attachments, Time now) {
  ordered_json out = ordered_json::array();
  for (const Attachment* const one : attachments) {
    const State& state = one->state();
    const auto& lease = state.lease;
    out.push_back({{"containerID", state.owner.key.container_id},
                   {"network", state.owner.key.network},
                   {"ifname", state.owner.key.ifname},
                   {"netns", state.owner.netns},
                   {"address", lease ? ordered_json(lease->address.str()) : ordered_json()},
                   {"server", lease ? ordered_json(lease->server.str()) : ordered_json()},
                   {"state", std::string(str(one->client().state()))},
                   {"renew", lease ? seconds_until(lease->renew, now) : ordered_json()},
                   {"rebind", lease ? seconds_until(lease->rebind, now) : ordered_json()},
                   {"expire", lease ? seconds_until(lease->expire, now) : ordered_json()},
                   {"problem", one->problem()}});
  }
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

Daemon::Daemon(const Flags& flags, Listening listening)
    : flags_(flags),
      states_(StateDir::create(flags.host_prefix + flags.state_dir)),
      removals_(IN_DELETE | IN_MOVED_FROM),
      server_(
          loop_, std::move(listening), [this](const Asked& asked) { on_call(asked); },
          [this](std::uint64_t connection) { on_close(connection); },
          [this](const std::exception&) {
            failure_ = std::current_exception();
            loop_.stop();
          }) {
  loop_.stop_on_signals();
  if (removals_.fd() >= 0) {
    loop_.watch(removals_.fd(), [this] {
      removals_.take();  // a look at all finds the removed ones, too
      look_around();
    });
  }
  take_over();
  look_around();
}

Daemon::~Daemon() {
  for (auto& [file, entry] : entries_) forget(entry);
}

void Daemon::run() {
  loop_.run([](const std::exception& e) { cni::note(e.what()); });
  keep_folder();
  if (failure_) std::rethrow_exception(failure_);
}

void Daemon::take_over() {
  const Time now = EventLoop::now();
  for (State& state : states_.all_removing_others()) {
    const std::string file = state.owner.key.tag();
    watch_directory_of(state.owner.netns);
    Entry& entry = entries_[file];
    entry.attachment = std::make_unique<Attachment>(std::move(state), flags_.timing);
    bool exists = true;  // as long as that cannot be told
    try {
      exists = entry.attachment->resume(now);
    } catch (const netlink::Error& e) {
      cni::note(cat(entry.attachment->state().name(), ": ", e.what()));
    }
    loop_.at(now, entry.attachment.get(),
             [this, file, exists] { exists ? serve(file) : end(file); });
  }
}

void Daemon::on_call(const Asked& asked) {
  try {
    if (asked.call.method == method::kAllocate) return allocate(asked);
    if (asked.call.method == method::kRelease) return release(asked);
    if (asked.call.method == method::kCheck) return check(asked);
    if (asked.call.method == method::kCollect) return collect(asked);
    if (asked.call.method == method::kLeases) {
      std::vector<const Attachment*> all;
      for (const auto& [file, entry] : entries_) all.push_back(entry.attachment.get());
      return server_.answer_text(asked, leases_json(all, EventLoop::now()));
    }
    server_.answer_error(asked, cat(kUnknownMethod, "method ", asked.call.method));
  } catch (const std::exception& e) {
    server_.answer_error(asked, e.what());
  }
}

// A plugin that does not wait for its lease any more is dead: DEL may have come already.
void Daemon::on_close(std::uint64_t connection) {
  std::vector<std::string> abandoned;
  for (auto& [file, entry] : entries_) {
    const auto left = std::erase_if(
        entry.waiting, [connection](const Asked& asked) { return asked.connection == connection; });
    if (left != 0 && entry.waiting.empty()) abandoned.push_back(file);
  }
  for (const std::string& file : abandoned) end(file);
}

void Daemon::allocate(const Asked& asked) {
  const Request request = request_of(asked.call, "ADD");
  const Conf conf = Conf::parse(request);
  State wanted = state_of(request, conf, flags_);
  const std::string file = wanted.owner.key.tag();
  std::optional<Ip> known;
  if (const auto found = entries_.find(file); found != entries_.end()) {
    Entry& entry = found->second;
    const State& state = entry.attachment->state();
    if (!entry.waiting.empty() && state.owner.netns == wanted.owner.netns) {
      entry.waiting.push_back(asked);  // one ADD more of the same attachment: one lease
      return;
    }
    if (entry.waiting.empty() && still_holds(state, wanted)) {
      server_.answer(asked, result_of(state));
      entry.attachment->hand_over(EventLoop::now());
      return watch(file, entry);
    }
    fail(file, "another ADD of this attachment replaced it");
  }
  if (const auto found = entries_.find(file); found != entries_.end()) {
    const auto& lease = found->second.attachment->state().lease;
    if (lease) known = lease->address.ip;
  } else {
    require_understood(states_, wanted.owner);
  }
  auto attachment = std::make_unique<Attachment>(std::move(wanted), flags_.timing);
  const Time now = EventLoop::now();
  attachment->acquire(now, known);  // else an earlier ADD keeps its lease
  if (const auto found = entries_.find(file); found != entries_.end()) {
    forget(found->second);
    entries_.erase(found);
  }
  watch_directory_of(attachment->state().owner.netns);
  Entry& entry = entries_[file];
  entry.attachment = std::move(attachment);
  entry.waiting.push_back(asked);
  entry.deadline = now + std::min<Time>(std::chrono::seconds(conf.timeout), flags_.resend_timeout);
  serve(file);
}

void Daemon::release(const Asked& asked) {
  const auto owner = plugins::state_owner(names_of(asked.call));
  const std::string file = owner.key.tag();
  if (const auto found = entries_.find(file); found != entries_.end()) {
    const auto waiting = std::exchange(found->second.waiting, {});
    end(file);
    for (const Asked& other : waiting) {
      server_.answer_error(other, "a DEL of this attachment ended it");
    }
  } else {
    require_understood(states_, owner);
    states_.remove(owner);  // which an earlier DEL may not have been able to
  }
  server_.answer_nothing(asked);
}

void Daemon::check(const Asked& asked) {
  const Request request = request_of(asked.call, "CHECK");
  const std::string file = file_of(request);
  if (!entries_.contains(file)) adopt(request, file);
  const auto found = entries_.find(file);
  if (found == entries_.end()) {
    return server_.answer_error(asked, "the daemon has no lease of this attachment");
  }
  const Attachment& attachment = *found->second.attachment;
  if (!attachment.state().lease) {
    const std::string& problem = attachment.problem();
    return server_.answer_error(asked, cat("the lease was lost, another one is asked for",
                                           problem.empty() ? "" : ": ", problem));
  }
  server_.answer(asked, result_of(attachment.state()));
}

// Nobody else would renew it: the daemon of the reference plugins, which gave it, keeps no state.
void Daemon::adopt(const Request& request, const std::string& file) {
  require_understood(states_, plugins::state_owner(request));
  const Conf conf = Conf::parse(request);
  auto attachment = std::make_unique<Attachment>(state_of(request, conf, flags_), flags_.timing);
  const Time now = EventLoop::now();
  if (!attachment->adopt(now, request.required_prev_result())) return;
  save(attachment->state());
  watch_directory_of(attachment->state().owner.netns);
  Entry& entry = entries_[file];
  entry.attachment = std::move(attachment);
  loop_.at(now, entry.attachment.get(), [this, file] { serve(file); });
}

void Daemon::collect(const Asked& asked) {
  Request request;
  request.read_environment({{"CNI_COMMAND", "GC"}, {"CNI_PATH", "/"}});
  request.read_config(asked.call.input);
  const auto valid = request.valid_attachments();
  std::vector<std::string> stale;
  for (const auto& [file, entry] : entries_) {
    const State& state = entry.attachment->state();
    const cni::Attachment name = state.owner.key.in_network();
    const bool is_kept = state.owner.key.network != request.network || !entry.waiting.empty() ||
                         !valid || std::find(valid->begin(), valid->end(), name) != valid->end();
    if (!is_kept) stale.push_back(file);
  }
  for (const std::string& file : stale) end(file);
  server_.answer_nothing(asked);
}

void Daemon::serve(const std::string& file) {
  const auto found = entries_.find(file);
  if (found == entries_.end()) return;
  Entry& entry = found->second;
  Attachment& attachment = *entry.attachment;
  const Time now = EventLoop::now();
  const auto outcome = attachment.advance(now);
  const bool adds = !entry.waiting.empty();
  if (outcome == Attachment::Outcome::kGone) {
    cni::note(cat(attachment.state().name(), ": the interface or its namespace was removed"));
    if (adds) return fail(file, "the interface or its namespace was removed");
    return end(file);
  }
  if (outcome == Attachment::Outcome::kRefused && adds) {
    return fail(file, std::string(attachment.refused()));  // which ends with the attachment
  }
  if (outcome == Attachment::Outcome::kChanged) {
    try {
      save(attachment.state());
    } catch (const netlink::Error& e) {
      if (adds) return fail(file, e.what());  // nobody would renew it after a restart
      cni::note(cat(attachment.state().name(), ": ", e.what()));
    }
  }
  if (adds && attachment.state().lease) {
    attachment.hand_over(now);
    entry.deadline = kNever;
    const cni::Result result = result_of(attachment.state());
    for (const Asked& asked : std::exchange(entry.waiting, {})) server_.answer(asked, result);
  }
  if (!entry.waiting.empty() && now >= entry.deadline) {
    const std::string& problem = attachment.problem();
    return fail(
        file, cat("no more tries", problem.empty() ? ": no DHCP server answered" : ": ", problem));
  }
  attachment.rest(now);
  watch(file, entry);
}

void Daemon::watch(const std::string& file, Entry& entry) {
  const Attachment& attachment = *entry.attachment;
  const Attachment::Fds fds = attachment.fds();
  for (const int fd : std::exchange(entry.watched, fds)) {
    if (fd >= 0 && std::ranges::find(fds, fd) == fds.end()) loop_.forget(fd);
  }
  for (const int fd : fds) {
    if (fd >= 0) loop_.watch(fd, [this, file] { serve(file); });
  }
  loop_.at(std::min(attachment.deadline(), entry.deadline), entry.attachment.get(),
           [this, file] { serve(file); });
}

void Daemon::fail(const std::string& file, const std::string& why) {
  const auto found = entries_.find(file);
  if (found == entries_.end() || found->second.waiting.empty()) return;
  const auto waiting = std::exchange(found->second.waiting, {});
  end(file);
  for (const Asked& asked : waiting) server_.answer_error(asked, why);
}

void Daemon::end(const std::string& file) {
  const auto found = entries_.find(file);
  if (found == entries_.end()) return;
  Entry entry = std::move(found->second);
  entries_.erase(found);
  forget(entry);
  entry.attachment->release();
  const State& state = entry.attachment->state();
  cni::noting_failure(state.name(), [&] { states_.remove(state.owner); });
}

void Daemon::forget(Entry& entry) noexcept {
  loop_.at(kNever, entry.attachment.get(), {});
  for (int& fd : entry.watched) {
    if (fd >= 0) loop_.forget(fd);
    fd = -1;
  }
}

void Daemon::save(const State& state) {
  keep_folder();
  states_.put(state);
}

}  // namespace dhcp
