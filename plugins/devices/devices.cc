#include <algorithm>
#include <chrono>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/config/args.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/privileges.h"
#include "plugins/common/link/namespaces.h"
#include "plugins/devices/ask.h"
#include "plugins/devices/attach.h"
#include "plugins/devices/conf.h"

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

// Attaches the pod's devices, each by the plugins that its pool names. Those with names of their
// own come first.
Result add(const cni::Request& request, cni::Undo& undo) {
  const std::int64_t started = std::chrono::steady_clock::now().time_since_epoch().count();
  const Conf conf = Conf::parse(request);
  Result result = require_prev_result(request);
  const auto pod = pod_of(request, conf);
  if (!pod) return result;
  auto entries = devices_of(request, conf, *pod);
  if (entries.empty()) return result;
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  const Ledger ledger = require_ledger(conf.ledger_dir);
  Sandbox sandbox(request, ledger, result, started);
  std::ranges::stable_sort(entries, {}, [](const Entry& one) { return one.ifname.empty(); });
  for (const Entry& entry : entries) {
    const Entry held = sandbox.hold(entry, conf.prefix);
    undo.add(Detach{request, conf.ledger_dir, held});
    append(result, sandbox.attach(held));
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
    if (one.holder || one.is_holder_unreadable || uid.empty() || !one.pod || one.pod->uid != uid)
      continue;
    throw Error(Code::kInternal, cat("device '", one.id, "' of the pod is not attached to it"));
  }
  return ledger->held_by(plugins::state_owner(request));  // throws for what is unreadable
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
    if (!collect.takes(what, owner.key, plugins::life_of(owner))) continue;
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
    if (owner.key != own.key && plugins::lives(owner)) continue;
    const auto look = [&] {
      throw Error(Code::kInternal,
                  cat("device '", one.id, "' is still attached to ", owner.key.as_owner()));
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
