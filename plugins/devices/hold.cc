#include "plugins/devices/hold.h"

#include <algorithm>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "plugins/devices/attach.h"

namespace devices {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;

StateOwner owner_in(const cni::Request& request) {
  const auto pod = cni::open_netns(request);
  return plugins::state_owner(request, netlink::RouteSocket(pod));
}

// Whether the holder is the same interface of an earlier sandbox of the pod. A kubelet has one
// sandbox of a pod and stops the others first (computePodActions in kuberuntime_manager.go), but a
// runtime that is killed during ADD forgets the sandbox and leaves its namespace. That ADD may
// still run, and takes nothing from a later one.
bool is_earlier_sandbox(const Holder& holder, const Holder& mine) {
  const StateOwner &other = holder.owner, &own = mine.owner;
  return holder.pod && holder.pod == mine.pod && holder.started < mine.started &&
         other.container_id != own.container_id && other.network == own.network &&
         other.ifname == own.ifname;
}

// Whether the holder's attachment does not exist any more, or was never complete.
bool is_stale(const Holder& holder, const Holder& mine) {
  if (is_earlier_sandbox(holder, mine) || !plugins::lives(holder.owner)) return true;
  return holder.owner.is_same_attachment(mine.owner) && holder.result.empty();
}

[[noreturn]] void refuse(const Entry& entry, const StateOwner& owner) {
  const StateOwner& other = entry.holder->owner;
  if (other.is_same_attachment(owner)) {
    throw Error(Code::kInternal,
                cat("device '", entry.id,
                    "' of an earlier ADD of this attachment "
                    "has not been detached"),
                "call DEL");
  }
  throw Error(Code::kTryAgainLater,
              cat("device '", entry.id, "' is still in container '", other.container_id, "'"),
              cat("its interface is '", entry.holder->interface, "' in ", other.netns));
}

// \throws cni::Error where the kubelet has given it to another pod since.
Entry read_again(const Ledger& ledger, const Entry& entry) {
  auto now = ledger.read(entry.id);
  if (now && now->is_of(*entry.pod) && now->resource == entry.resource) return *std::move(now);
  throw Error(Code::kTryAgainLater, cat("device '", entry.id, "' is another pod's by now"));
}

// Empty: there was one, which is detached now; the caller looks again.
std::optional<Entry> try_hold(const cni::Request& request, const Ledger& ledger, const Entry& entry,
                              const Holder& holder) {
  Entry now;
  {
    const auto lock = ledger.lock();
    now = read_again(ledger, entry);
    if (!now.holder) {
      if (now.pod != holder.pod) {  // the entry has no UID
        now.pod = holder.pod;
        ledger.put_unsynced(now);
      }
      now.holder = holder;
      now.holder->resource = now.resource;
      now.holder->plugins = now.plugins;
      now.holder->promised = now.promised;
      ledger.put_mark(holder.owner, now.id);
      ledger.put_holder(now.id, *now.holder);
      return now;
    }
  }
  if (!is_stale(*now.holder, holder)) refuse(now, holder.owner);
  cni::during(cat("detach device '", now.id, "' from ", now.holder->owner.str()),
              [&] { let_go(request, ledger, now); });
  return std::nullopt;
}

}  // namespace

Entry hold(const cni::Request& request, const Ledger& ledger, const Entry& entry, Holder holder) {
  constexpr int kTries = 5;
  const cni::Phase phase("hold");
  holder.owner = owner_in(request);
  holder.pod = entry.pod;
  for (int i = 0; i < kTries; ++i) {
    if (auto held = try_hold(request, ledger, entry, holder)) return *std::move(held);
  }
  throw Error(Code::kTryAgainLater, cat("device '", entry.id, "': its holder keeps changing"));
}

void finish(const Ledger& ledger, const Entry& held, const std::string& result) {
  const cni::Phase phase("finish");
  const auto lock = ledger.lock();
  const auto now = ledger.read(held.id);
  if (!now || now->holder != held.holder) {
    throw Error(Code::kTryAgainLater, cat("device '", held.id, "' was detached during ADD"));
  }
  ledger.add_result(held.id, result);
}

void let_go(const cni::Request& request, const Ledger& ledger, const Entry& held) {
  Delegates(request, held).del();
  const auto lock = ledger.lock();
  const auto now = ledger.look(held.id);
  if (now && now->holder && now->holder->owner == held.holder->owner) ledger.remove_holder(held.id);
  ledger.remove_idle_mark(held.holder->owner);
}

}  // namespace devices
