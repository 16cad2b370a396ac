#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "libcni/config/args.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/privileges.h"
#include "netlink/route/socket.h"
#include "plugins/common/link/namespaces.h"
#include "plugins/devices/ask.h"
#include "plugins/devices/attach.h"
#include "plugins/devices/conf.h"
#include "plugins/devices/hold.h"

namespace devices {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;
using cni::Result;
using netlink::Capability;

Result require_prev_result(const cni::Request& request) {
  return plugins::require_prev_result(request, "This plugin must be called as chained plugin");
}

/// Names of interfaces in the pod.
class Names {
 public:
  Names(const cni::Request& request, const Conf& conf, const Result& result)
      : prefix_(conf.prefix), pod_(cni::open_netns(request)) {
    for (const cni::Interface& one : result.interfaces) taken_.insert(one.name);
  }

  // "net1", "net2", …; the name that the pool says, and for its next device the same with a number.
  std::string next(const Entry& entry) {
    constexpr std::size_t kMax = 13;  // and two digits
    const std::string base = entry.ifname.empty() ? prefix_ : entry.ifname.substr(0, kMax);
    std::string name = entry.ifname;
    for (unsigned n = entry.ifname.empty() ? 1 : 2; name.empty() || !is_free(name); ++n) {
      name = cat(base, n);
    }
    taken_.insert(name);
    return name;
  }

 private:
  bool is_free(const std::string& name) { return !taken_.contains(name) && !pod_.find(name); }

  const std::string& prefix_;
  netlink::RouteSocket pod_;
  std::set<std::string> taken_;
};

// Only patchbay-agent creates the folder: in a new one, promises are missing.
Ledger require_ledger(const std::string& path) {
  if (auto ledger = Ledger::find(path)) return *std::move(ledger);
  throw Error(Code::kTryAgainLater, cat("the folder of the ledger was removed: '", path, "'"));
}

/// Undo of ADD.
struct Detach {
  cni::Request request;
  std::string ledger_dir;
  Entry held;
  void operator()() const { let_go(request, require_ledger(ledger_dir), held); }
  std::string describe() const { return cat("detach device '", held.id, "'"); }
};

Result attach(const cni::Request& request, const Ledger& ledger, const Entry& held) {
  const cni::Phase phase("device");
  const Result result =
      cni::during(cat("attach device '", held.id, "' as '", held.holder->interface, "'"),
                  [&] { return Delegates(request, held).add(); });
  finish(ledger, held, cni::to_json(result, cni::kNewest).dump());
  return result;
}

// Those with names of their own come first.
std::vector<std::pair<Entry, std::string>> with_names(const cni::Request& request, const Conf& conf,
                                                      const Result& result,
                                                      std::vector<Entry> entries) {
  std::ranges::stable_sort(entries, {}, [](const Entry& one) { return one.ifname.empty(); });
  Names names(request, conf, result);
  std::vector<std::pair<Entry, std::string>> out;
  for (Entry& one : entries) {
    std::string name = names.next(one);
    out.emplace_back(std::move(one), std::move(name));
  }
  return out;
}

// As long as the result exists, no other ADD has the lock: it would take this one for killed, and
// their delegates have one state. The kernel frees the lock of a process that is killed. The
// namespace itself is no place for it: every user can open that, and so lock it.
netlink::Fd lock_pod(const cni::Request& request, const Ledger& ledger) try {
  const netlink::NetNs pod = cni::open_netns(request);
  struct stat info;
  if (::fstat(pod.fd(), &info) != 0) {
    throw netlink::Error(cat("look at '", request.netns, "'"), errno);
  }
  // Whatever path leads to it. The number is another namespace's only after this one is gone.
  return ledger.lock_pod(cat(info.st_dev, ":", info.st_ino));
} catch (const Error& e) {
  if (e.code() != Code::kTryAgainLater) throw;
  throw Error(e.code(), "another ADD attaches devices to the pod", request.netns);
}

// An ADD of this attachment was killed: what it left would have the names of this one's interfaces.
void let_go_interrupted(const cni::Request& request, const Ledger& ledger) {
  const auto owner = plugins::state_owner(request);
  if (!ledger.has_mark(owner)) return;
  for (const Entry& one : ledger.held_by(owner)) {
    if (!one.is_attached()) let_go(request, ledger, one);
  }
}

// Attaches the pod's devices, each by the plugins that its pool names.
Result add(const cni::Request& request, cni::Undo& undo) {
  const std::int64_t started = std::chrono::steady_clock::now().time_since_epoch().count();
  const Conf conf = Conf::parse(request);
  Result result = require_prev_result(request);
  const auto pod = pod_of(request, conf);
  if (!pod) return result;
  const auto entries = devices_of(request, conf, *pod);
  if (entries.empty()) return result;
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  const Ledger ledger = require_ledger(conf.ledger_dir);
  const auto locked = lock_pod(request, ledger);
  let_go_interrupted(request, ledger);
  for (const auto& [entry, interface] : with_names(request, conf, result, entries)) {
    const Entry held = hold(request, ledger, entry, {.interface = interface, .started = started});
    undo.add(Detach{request, conf.ledger_dir, held});
    append(result, attach(request, ledger, held));
  }
  return result;
}

// The ledger of a node with the agent; nothing where the attachment has no device.
std::optional<Ledger> ledger_with(const cni::Request& request) {
  auto ledger = Ledger::find(ledger_dir_of(request));
  if (ledger && !ledger->has_mark(plugins::state_owner(request))) ledger.reset();
  return ledger;
}

// Gives the devices back that the ledger says this attachment has.
void del(const cni::Request& request) {
  const auto ledger = ledger_with(request);
  if (!ledger) return;
  const auto owner = plugins::state_owner(request);
  auto entries = ledger->held_by(owner);
  std::ranges::reverse(entries);
  cni::BestEffort each;
  for (const Entry& one : entries) {
    each(cat("detach device '", one.id, "'"), [&] { let_go(request, *ledger, one); });
  }
  each.finish();
  if (!entries.empty()) return;
  const auto lock = ledger->lock();  // an ADD was killed before it had a device
  ledger->remove_idle_mark(owner);
}

// The devices of this attachment. GC with a list that lacks the pod may have detached one of them.
std::vector<Entry> require_held(const cni::Request& request, const Conf& conf) {
  const auto ledger = Ledger::find(conf.ledger_dir);
  if (!ledger) return {};
  const auto uid = cni::value_in_args(request.args, "K8S_POD_UID");
  for (const Entry& one : ledger->all()) {
    if (one.holder || uid.empty() || !one.pod || one.pod->uid != uid) continue;
    throw Error(Code::kInternal, cat("device '", one.id, "' of the pod is not attached to it"));
  }
  return ledger->held_by(plugins::state_owner(request));
}

void require_attached(const Entry& entry) {
  if (entry.is_attached()) return;
  throw Error(Code::kInternal, cat("ADD of device '", entry.id, "' was interrupted"));
}

void check(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  require_prev_result(request);
  for (const Entry& one : require_held(request, conf)) {
    require_attached(one);
    cni::during(cat("device '", one.id, "'"), [&] { Delegates(request, one).check(); });
  }
}

// Detaches devices of attachments that are not in the list, and lets the delegates collect what
// they have beside. Other changes of the ledger wait for that.
void gc(const cni::Request& request, cni::Collect& collect) {
  const auto ledger = Ledger::find(ledger_dir_of(request));
  if (!ledger) return;
  cni::BestEffort each;
  for (const Entry& one : ledger->all()) {
    if (!one.holder) continue;
    const auto& owner = one.holder->owner;
    const std::string what = cat("device '", one.id, "'");
    if (!collect.takes(what, owner.network, owner.attachment(), plugins::life_of(owner))) continue;
    each(cat("detach ", what), [&] { let_go(request, *ledger, one); });
  }
  each("collect what delegates have", [&] {
    const auto lock = ledger->lock();
    const auto now = ledger->all();
    for (const Entry& one : now) {  // an interface whose holder is not known would be of nobody
      if (one.is_holder_unreadable) ledger->read(one.id);  // throws
    }
    collect_delegates(request, now, collect);
  });
  each.finish();
}

// Pods without devices do not depend on the agent.
void status(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  if (conf.required) require_agent(conf);
}

void validate(const cni::Request& request) {
  Conf::parse(request);
  require_prev_result(request);
}

Result repair(const cni::Request& request, cni::Repair& repair) {
  Conf::parse(request);
  Result result = require_prev_result(request);
  const auto ledger = ledger_with(request);
  if (!ledger) return result;
  for (const Entry& one : ledger->held_by(plugins::state_owner(request))) {
    require_attached(one);
    cni::during(cat("device '", one.id, "'"), [&] { Delegates(request, one).repair(repair); });
  }
  return result;
}

// Detaches the devices of an attachment that does not exist any more, and of others whose namespace
// does not: the next pod that gets one of them need not do it.
void reclaim(const cni::Request& request, cni::Repair& repair) {
  const auto ledger = Ledger::find(ledger_dir_of(request));
  if (!ledger) return;
  const auto own = plugins::state_owner(request);
  cni::BestEffort each;
  for (const Entry& one : ledger->all()) {
    if (!one.holder) continue;
    const auto& owner = one.holder->owner;
    if (!owner.is_same_attachment(own) && plugins::lives(owner)) continue;
    const auto look = [&] {
      throw Error(Code::kInternal, cat("device '", one.id, "' is still attached to ", owner.str()));
    };
    each(cat("detach device '", one.id, "'"),
         [&] { repair.part(look, [&] { let_go(request, *ledger, one); }); });
  }
  each.finish();
}

}  // namespace

extern constinit const cni::Plugin kPlugin{
    .name = "devices",
    .verbs = {add, del, check, gc, status, validate, repair, reclaim},
    .manual = &kManual};

}  // namespace devices
