#include <filesystem>

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"
#include "plugins/host-local/conf.h"
#include "plugins/leases/allocate.h"
#include "plugins/leases/stale.h"
#include "plugins/leases/store.h"
#include "plugins/leases/verbs.h"

namespace host_local {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;
using leases::Conf;
using leases::Host;
using leases::kHostLocal;
using leases::Store;

// Allocates one address from every range set. \throws as leases::allocate(), parse(), take_lock().
cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = parse(request);
  cni::Result result{.routes = conf.routes, .dns = leases::read_resolv_conf(conf.resolv_conf)};
  Store store = leases::create_store(conf, request.network, Host::current());
  store.lock();
  result.ips = leases::add(store, conf, leases::owner_of(request), undo);
  return result;
}

// \throws cni::Error where the attachment has no lease, or the config is invalid.
void check(const cni::Request& request) {
  leases::check(request, parse(request, PodCidrs::kSkip).data_dir, kHostLocal);
}

void del(const cni::Request& request) { leases::del(request, kHostLocal); }

void gc(const cni::Request& request, cni::Collect& collect) {
  leases::gc(request, collect, kHostLocal);
}

Conf conf_for_status(const cni::Request& request) try {
  return parse_without_attachment(request, PodCidrs::kRead);
} catch (const Error& e) {
  if (e.code() != Code::kTryAgainLater) throw;
  throw Error(Code::kPluginUnavailable, e.what(), e.details());
}

// Says no only where no ADD can succeed: a runtime then starts no pod of any network on the node
// (containerd 2). A range set that is used up is one ADD's error, and a line in the log.
// \throws cni::Error: 7 for an invalid config, 50 where no lease can be written, or the node's pod
// CIDR is not known.
void status(const cni::Request& request) {
  const Conf conf = conf_for_status(request);
  leases::require_writable(std::filesystem::absolute(conf.data_dir) / request.network);
  const auto store = Store::open(conf.data_dir, request.network, Host::current());
  if (!store) return;
  const auto all_used = store->used();
  for (const leases::RangeSet& set : conf.sets) {
    const auto used = leases::used_of(set, all_used);
    if (used.size() < set.size()) continue;
    if (!leases::survey(*store, used).dead.empty()) continue;  // ADD would reclaim it
    cni::note(cat("host-local: no IP addresses available in range set: ", set.str()));
  }
}

void validate(const cni::Request& request) { parse_without_attachment(request, PodCidrs::kSkip); }

// A pod CIDR that is not known yet is no fault of the attachment.
Conf conf_for_repair(const cni::Request& request) try {
  return parse(request, PodCidrs::kRead);
} catch (const Error& e) {
  if (e.code() != Code::kTryAgainLater) throw;
  return parse(request, PodCidrs::kSkip);
}

cni::Result repair(const cni::Request& request, cni::Repair& repair) {
  return leases::repair(request, conf_for_repair(request), repair, kHostLocal);
}

}  // namespace

extern constinit const cni::Plugin kPlugin{.name = "host-local",
                                           .verbs = {add, del, check, gc, status, validate, repair},
                                           .manual = &kManual,
                                           .loading = ""};

}  // namespace host_local
