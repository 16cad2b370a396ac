#include <algorithm>
#include <ctime>
#include <filesystem>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"
#include "plugins/cluster-pool/allocation.h"
#include "plugins/cluster-pool/ask.h"
#include "plugins/cluster-pool/conf.h"
#include "plugins/cluster-pool/share.h"
#include "plugins/leases/allocate.h"
#include "plugins/leases/stale.h"
#include "plugins/leases/verbs.h"

namespace cluster_pool {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;
using leases::Host;
using leases::Store;

constexpr std::string_view kName = "cluster-pool";

// Allocates one address of each range set, in the blocks of this node. \throws as Conf::parse(),
// Allocation::run().
cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = Conf::parse(request);
  cni::Result result{.routes = conf.leases.routes,
                     .dns = leases::read_resolv_conf(conf.leases.resolv_conf)};
  Store store = leases::create_store(conf.leases, request.network, Host::current(kName));
  const leases::Owner owner = leases::owner_of(request);
  result.ips = Allocation(conf, store, owner).run(undo);
  return result;
}

// \throws cni::Error where the attachment has no lease, or the config is invalid.
void check(const cni::Request& request) {
  leases::check(request, Conf::parse(request).leases.data_dir, kName);
}

void del(const cni::Request& request) { leases::del(request, kName); }

void gc(const cni::Request& request, cni::Collect& collect) { leases::gc(request, collect, kName); }

// Whether ADD finds an address there, as far as leases say.
bool has_free(const SetShare& share, const std::optional<Store>& store) {
  if (share.addresses.ranges.empty()) return false;
  if (!store) return true;
  const auto used = leases::used_of(share.addresses, store->used());
  return used.size() < share.addresses.size() || !leases::survey(*store, used).dead.empty();
}

// Says no only where no ADD can succeed, as host-local: without a free address, and without an
// agent that claims a block. It asks for one, because a runtime that hears no starts no pod.
// \throws cni::Error: 7 for an invalid config, 50.
void status(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  leases::require_writable(std::filesystem::absolute(conf.leases.data_dir) / request.network);
  const auto folder = blocks::Folder::create();
  const auto held = folder.held(request.network);
  const auto store = Store::open(conf.leases.data_dir, request.network, Host::current(kName));
  const auto shares = shares_of(conf.pool, held);
  blocks::Want want{.network = request.network, .pool = conf.pool, .since = std::time(nullptr)};
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (!has_free(shares[i], store)) want.sets.push_back({i, shares[i].blocks});
  }
  if (want.sets.empty()) return;
  folder.ask(want);
  if (held && held->note.empty()) return;  // the agent has a block for the next ADD
  throw Error(Code::kPluginUnavailable,
              cat("no IP addresses available in the blocks that this node has of network '",
                  request.network, "'"),
              agent_says(folder, request.network, held));
}

void validate(const cni::Request& request) { Conf::parse(request); }

cni::Result repair(const cni::Request& request, cni::Repair& repair) {
  return leases::repair(request, Conf::parse(request).leases, repair, kName);
}

}  // namespace

extern constinit const cni::Plugin kPlugin{.name = "cluster-pool",
                                           .verbs = {add, del, check, gc, status, validate, repair},
                                           .manual = &kManual,
                                           .loading = ""};

}  // namespace cluster_pool
