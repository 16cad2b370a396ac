#include <algorithm>

#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "libcni/plugin/plugin.h"
#include "plugins/dhcp/commands.h"
#include "plugins/dhcp/plugin/call.h"
#include "plugins/dhcp/protocol/conf.h"
#include "plugins/state/dhcp_lease.h"

namespace dhcp {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;
using std::chrono::seconds;

constexpr seconds kShortly{10};
constexpr seconds kStatusLimit{5};  // runtimes call STATUS often
constexpr seconds kGrace{5};        // the daemon's own deadline comes first, and says why

struct ReleaseLease {
  std::string socket_path;
  Call call;
  void operator()() const { call_daemon(socket_path, call, kShortly); }
  static std::string describe() { return "release the lease"; }
};

// Asks the daemon for a lease. \throws cni::Error: 8, 7; 50 without a daemon; 11 where no server
// gave one in time.
cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = Conf::parse(request);
  cni::open_netns(request);
  Connection daemon(conf.socket_path, seconds(conf.timeout) + kGrace);
  const ReleaseLease release{conf.socket_path, call_of(request, method::kRelease)};
  const cni::Phase phase("lease");
  gob::Value answer;
  try {
    answer = daemon.call(call_of(request, method::kAllocate));
  } catch (const Error&) {
    // An error of the daemon leaves nothing of ours: the lease may be another ADD's. Without an
    // answer a lease may have got lost.
    if (!daemon.is_answered()) undo.add(release);
    throw;
  }
  undo.add(release);
  cni::Result result = result_from(answer);
  if (result.ips.empty()) throw Error(Code::kInternal, "the DHCP daemon returned no address");
  return result;
}

// DEL succeeds without a daemon, because later the interface does not exist any more: the lease
// ends by itself. A runtime that repeats DEL until there is a daemon would only keep the pod.
void del(const cni::Request& request) {
  const std::string path = socket_path_of(request);
  auto daemon = Connection::find(path, kShortly);
  if (!daemon) {
    return cni::note(
        cat("dhcp: nobody listens on ", path, "; the server has the address until the lease ends"));
  }
  daemon->call(call_of(request, method::kRelease));
}

// The daemon's lease. The daemon of the reference plugins acquires one if it has none.
cni::Result lease_of(const cni::Request& request, const Conf& conf) {
  try {
    return result_from(call_daemon(conf.socket_path, call_of(request, method::kCheck), kShortly));
  } catch (const Error& e) {
    if (!is_unknown_method(e)) throw;
  }
  return result_from(call_daemon(conf.socket_path, call_of(request, method::kAllocate), kShortly));
}

// \throws cni::Error where the daemon has no lease, or that of another address than ADD returned.
void check(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  const cni::Result previous = request.required_prev_result();
  const cni::Result lease = lease_of(request, conf);
  for (const cni::Address& address : lease.ips) {
    const bool known = std::ranges::any_of(
        previous.ips, [&](const cni::Address& one) { return one.cidr == address.cidr; });
    if (known) continue;
    throw Error(Code::kInternal, cat("dhcp: the lease of '", request.ifname, "' is now ",
                                     address.cidr.str(), ", which prevResult does not have"));
  }
}

// Looks by the state files, and releases each lease that is named: the daemon knows neither.
void collect_named(const cni::Request& request, cni::Collect& collect) {
  const auto states = StateDir::find();
  cni::BestEffort each;
  for (const State& state : states ? states->all() : std::vector<State>()) {
    const auto& owner = state.owner;
    if (!collect.takes("DHCP lease", owner.key, life_of(owner))) continue;
    cni::Request of = request;
    of.container_id = owner.key.container_id;
    of.ifname = owner.key.ifname;
    of.netns = owner.netns;
    each(cat("release the lease of ", owner.key.as_owner()),
         [&] { call_daemon(socket_path_of(of), call_of(of, method::kRelease), kShortly); });
  }
  each.finish();
}

// Releases the leases of this network whose attachment is not in the list; none without a list.
void gc(const cni::Request& request, cni::Collect& collect) {
  if (collect.only_looks() || collect.removes_named()) return collect_named(request, collect);
  try {
    call_daemon(socket_path_of(request), call_of(request, method::kCollect), kShortly);
  } catch (const Error& e) {
    if (!is_unknown_method(e)) throw;
    cni::note("dhcp: the daemon of the reference plugins has no GC; nothing was released");
  }
}

// \throws cni::Error: 50 where the daemon does not answer.
void status(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  try {
    const Connection daemon(conf.socket_path, kStatusLimit);
  } catch (const Error& e) {
    if (e.code() != Code::kTryAgainLater) throw;  // which is no code of STATUS
    throw Error(Code::kPluginUnavailable, e.what(), e.details());
  }
}

void validate(const cni::Request& request) { Conf::parse(request); }

constexpr cni::Subcommand kSubcommands[] = {
    {.name = "daemon",
     .description = "keeps the leases of all pods of the node",
     .run = daemon_command},
    {.name = "leases", .description = "lists the leases of the daemon", .run = leases_command}};

}  // namespace

extern constinit const cni::Plugin kPlugin{.name = "dhcp",
                                           .verbs = {add, del, check, gc, status, validate},
                                           .manual = &kManual,
                                           .loading = "",
                                           .subcommands = kSubcommands};

}  // namespace dhcp
