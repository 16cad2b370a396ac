#include "plugins/devices/agent/dra/preparer.h"

#include <algorithm>
#include <ctime>

#include "libcni/common/error.h"
#include "libcni/config/conf.h"
#include "plugins/devices/agent/dra/judge.h"
#include "plugins/devices/agent/dra/parameters.h"
#include "plugins/devices/agent/handout.h"
#include "plugins/devices/agent/kubelet/limits.h"
#include "plugins/devices/agent/log.h"
#include "plugins/devices/agent/memory.h"
#include "plugins/state/owner.h"

namespace devices::dra {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;
using std::chrono::milliseconds;

milliseconds left(Clock::time_point until, Clock::duration most) {
  const auto out = std::min(until - Clock::now(), most);
  if (out <= Clock::duration::zero()) {
    throw Error(Code::kTryAgainLater, "the time of the kubelet's call is up");
  }
  return std::chrono::ceil<milliseconds>(out);
}

void require_text(const char* what, const std::string& text, std::size_t most) {
  if (!text.empty() && text.size() <= most) return;
  throw Error(Code::kInvalidConfig, cat(what, ": expected 1 to ", most, " bytes"));
}

// Of an object of Kubernetes, in the path of its URL.
void require_name(const char* what, const std::string& text, std::size_t most) {
  require_text(what, text, most);
  if (text != "." && text != ".." && text.find_first_of("/%") == text.npos) return;
  throw Error(Code::kInvalidConfig, cat(what, ": no object can have that name"));
}

void require_whole(const NamedClaim& claim) {
  constexpr std::size_t kMostName = 253, kMostUid = 128;
  require_text("uid", claim.uid, kMostUid);
  require_name("namespace", claim.space, kMostName);
  require_name("name", claim.name, kMostName);
}

// What it says in the log, and to the kubelet, which makes an event of the pod of it.
std::string error_of(const char* what, const NamedClaim& claim, const Error& e) {
  const std::string more = e.details().empty() ? "" : cat("; ", e.details());
  constexpr std::size_t kMostText = 1000;
  const std::string out =
      clean(cat(what, " claim '", claim.space, "/", claim.name, "': ", e.what(), more), kMostText);
  log(Level::kError, cat(what, " claim"), {.error = out});
  return out;
}

bool is_whole(const std::vector<Entry>& entries) {
  return !entries.empty() && std::ranges::all_of(entries, [&](const Entry& one) {
    return one.claim->parts == static_cast<std::int64_t>(entries.size());
  });
}

bool are_of(const std::vector<Entry>& entries, const std::vector<Result>& results) {
  return std::ranges::all_of(entries, [&](const Entry& entry) {
    const Claim& claim = *entry.claim;
    return std::ranges::any_of(results, [&](const Result& one) {
      return claim.request == one.request && claim.device == one.device && claim.share == one.share;
    });
  });
}

}  // namespace

Order Preparer::order_of(const Allocation& allocation) const {
  Order out{.claim = {.uid = allocation.uid,
                      .space = allocation.space,
                      .name = allocation.name,
                      .parts = static_cast<std::int64_t>(allocation.results.size())},
            .pod = allocation.pod,
            .parts = {}};
  for (const Result& result : allocation.results) {
    Pool pool = core_.pool_for(result);
    const std::string before = pool.plugins->dump();
    pool = merged(std::move(pool), allocation.configs, result.request);
    if (pool.plugins->dump() != before) {
      require_accepted(plugins_with(pool, sample_keys(pool)), means_.plugin_dir);
    }
    out.parts.push_back({result, std::move(pool)});
  }
  return out;
}

// The ledger answers for what it has where the API server is away: a kubelet that starts again asks
// for all claims of its pods, which go on.
std::vector<Entry> Preparer::entries_of(const NamedClaim& claim, const Call& call) {
  const auto until = call.until;
  std::vector<Entry> known = core_.prepared();
  std::erase_if(known, [&](const Entry& one) { return one.claim->uid != claim.uid; });
  const bool is_known = is_whole(known);
  nlohmann::json object;
  try {
    object = means_.source(claim, left(until, is_known ? kAgainWithin : kAnswerWithin));
  } catch (const NoSuchClaim&) {
    throw Error(Code::kInvalidConfig, "the API server has no such claim");
  } catch (const std::exception& e) {
    if (!is_known) {
      throw Error(Code::kTryAgainLater, cat("the API server cannot be asked: ", e.what()));
    }
    log(Level::kWarning, "prepare claim from the ledger, without the API server",
        {.pod = known.front().pod ? known.front().pod->str() : "", .error = clean(e.what())});
    return known;
  }
  const Allocation allocation = allocation_in(object, {.uid = claim.uid,
                                                       .space = claim.space,
                                                       .name = claim.name,
                                                       .driver = means_.driver,
                                                       .pool = means_.node});
  object = nullptr;  // it may be long, and what follows waits for the ledger
  const bool is_other = is_known && known.size() != allocation.results.size();
  if (is_other || !are_of(known, allocation.results)) {
    throw Error(Code::kTryAgainLater,
                cat("device '", known.front().id, "' of its earlier allocation is still prepared"));
  }
  if (call.has_hung_up()) throw Error(Code::kTryAgainLater, "the kubelet has hung up");
  const auto names_link = [](const Entry& one) { return !link_in(one.plugins).empty(); };
  if (!is_known || std::ranges::any_of(known, names_link)) core_.look_again();
  if (is_known) {
    // What is prepared stays, whatever config or parameters say by now.
    Order again{.claim = known.front().claim.value(), .pod = allocation.pod, .parts = {}};
    for (const Result& one : allocation.results) again.parts.push_back({one, {}});
    return core_.prepare(again, left(until, kLedgerWithin));
  }
  const Order order = order_of(allocation);
  end_rivals(order, until);
  return core_.prepare(order, left(until, kLedgerWithin));
}

// Whether the API server itself says so: the kubelet would have it unprepared, unless it has lost
// its state.
bool Preparer::is_gone(const NamedClaim& claim, Clock::time_point until) const try {
  const nlohmann::json object = means_.source(claim, left(until, kAgainWithin));
  const cni::Reader uid = cni::Reader(object)["metadata"]["uid"];
  return uid.present() && uid.as_string() != claim.uid;
} catch (const NoSuchClaim&) {
  return true;
} catch (const std::exception&) {
  return false;  // what is not seen is unknown
}

// The scheduler has given away what they have.
void Preparer::end_rivals(const Order& order, Clock::time_point until) {
  constexpr std::size_t kMostRivals = 8;
  std::size_t count = 0;
  for (const Entry& one : rivals_of(order, core_.pools(), core_.stock(), core_.prepared())) {
    if (one.holder && plugins::lives(one.holder->owner)) continue;
    if (++count > kMostRivals) return;
    const NamedClaim other{one.claim->uid, one.claim->space, one.claim->name};
    if (!is_gone(other, until)) continue;
    log(Level::kWarning, cat("end claim '", one.claim->str(), "', which does not exist any more"),
        {.resource = one.resource, .device = one.id});
    core_.unprepare(other.uid, left(until, kLedgerWithin));
  }
}

Prepared Preparer::prepare(const NamedClaim& claim, const Call& call) {
  Prepared out;
  try {
    cni::as_error([&] {
      require_whole(claim);
      for (const Entry& one : entries_of(claim, call)) {
        out.devices.push_back(
            {one.claim->request, one.claim->device, one.claim->share, one.claim->cdi});
      }
    });
  } catch (const Error& e) {
    out.devices.clear();
    out.error = error_of("prepare", claim, e);
  }
  trim_after_much();
  return out;
}

std::string Preparer::unprepare(const NamedClaim& claim, Clock::time_point until) try {
  cni::as_error([&] { core_.unprepare(claim.uid, left(until, kLedgerWithin)); });
  return {};
} catch (const Error& e) {
  return error_of("unprepare", claim, e);
}

}  // namespace devices::dra
