#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "libcni/common/undo.h"
#include "libcni/config/result.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"
#include "plugins/host-local/allocate.h"
#include "plugins/host-local/conf.h"
#include "plugins/host-local/index_update.h"
#include "plugins/host-local/restore.h"
#include "plugins/host-local/stale.h"
#include "plugins/host-local/store.h"
#include "plugins/names/state.h"

namespace host_local {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;

Owner owner_of(const cni::Request& request) {
  return {std::string(trimmed(request.container_id)), request.ifname};
}

cni::Dns read_resolv_conf(const std::string& path) {
  if (path.empty()) return {};
  const auto text = netlink::read_regular_file(path);
  if (!text)
    throw Error(Code::kInvalidConfig, cat("open ", path, ": no such file or directory"),
                cat("ipam.resolvConf: \"", path, "\""));
  return parse_resolv_conf(*text);
}

// DEL and GC release addresses even if ADD would reject the config.
std::string data_dir_or_default(const cni::Request& request) {
  try {
    return data_dir_from(request);
  } catch (const Error& e) {
    cni::note(
        cat("host-local: ", e.what(), "; the default ", names::kHostLocalDataDir, " is used"));
    return std::string(names::kHostLocalDataDir);
  }
}

// Addresses of prevResult: only a hint, so an invalid one is not an error.
std::vector<Ip> hints_from(const cni::Request& request) {
  std::vector<Ip> out;
  try {
    const auto previous = request.prev_result();
    if (!previous) return out;
    for (const cni::Address& address : previous->ips) out.push_back(address.cidr.ip);
  } catch (const Error& e) {
    cni::note(cat("host-local: ", e.what(), "; prevResult is ignored"));
  }
  return out;
}

// "ID" + CR LF, the incomplete lease of a running container, keeps its address.
Owner keeper_of(const File& file) {
  return owner_in(file.content).value_or(Owner{std::string(trimmed(file.content)), {}});
}

// Whether the index has a lease of a valid attachment whose file says nothing of it, as one that is
// torn or empty: the address is in use.
bool is_noted_as_kept(std::span<const OwnerIndex::Entry> noted, const File& file,
                      const std::vector<cni::Attachment>& valid) {
  const auto named = owner_in(file.content);
  const auto is_noted = [&noted](const Owner& owner) {
    return std::ranges::any_of(noted, [&owner](const OwnerIndex::Entry& entry) {
      return OwnerIndex::is_of(entry, owner);
    });
  };
  if (named && is_noted(*named)) return false;
  return std::ranges::any_of(valid, is_noted);
}

// Files that are no lease, or may be another machine's: the list has only this one's attachments.
bool is_not_for_gc(const Store& store, const Ip& ip, const File& file,
                   const std::set<Origin>& noted) {
  if (noted.contains(Origin::kElsewhere)) return true;
  const auto owner = owner_in(file.content);
  // An operator's text, also over a lease.
  if (!owner && !is_torn(file.content) && !is_empty(file.content)) return true;
  if (noted.contains(Origin::kThisBoot) || noted.contains(Origin::kEarlier)) return false;
  if (owner) return !is_surely_a_lease(*owner) || store.index().is_shared();
  return survey(store, {ip}).dead.empty();
}

void free_stale(const Store& store, const cni::Request& request, cni::Collect& collect,
                cni::BestEffort& each) {
  const auto entries = store.index().all();
  const auto origins = store.index().origins();
  for (const Ip& ip : store.used()) {
    each(cat("free ", ip.str()), [&] {
      const auto file = store.read(ip);
      const Owner owner = file ? keeper_of(*file) : Owner();
      if (!file || collect.is_valid(owner)) return;
      const auto own = OwnerIndex::of(entries, ip);
      if (is_noted_as_kept(own, *file, collect.valid())) return;
      std::set<Origin> noted;
      for (const OwnerIndex::Entry& entry : own)
        noted.insert(OwnerIndex::origin_in(origins, entry));
      if (is_not_for_gc(store, ip, *file, noted)) return;
      const std::string what = cat("lease ", ip.str());
      const cni::Life life = cni::life_by_age(file->modified);
      if (!collect.takes(what, {request.network, owner.container_id, owner.ifname}, life)) return;
      store.discard(ip, own);
    });
  }
}

// Files and index entries that kills and power losses left behind.
void tidy(const Store& store) {
  for (const OwnerIndex::Entry& entry : store.index().all()) {
    if (!store.has(entry.ip)) store.index().remove(entry);
  }
  store.index().prune();
  store.remove_left_overs();
}

// Allocates one address from every range set. \throws as allocate(), Conf::parse(), take_lock().
Store create_store(const Conf& conf, const std::string& network, const Host& host) try {
  return Store::create(conf.data_dir, network, host);
} catch (const netlink::Error& e) {
  throw cni::error_of(e, cat("ipam.dataDir: \"", conf.data_dir, "\""));
}

cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = Conf::parse(request);
  cni::Result result{.routes = conf.routes, .dns = read_resolv_conf(conf.resolv_conf)};
  ReleaseMade release{conf.data_dir, request.network, Host::current(), owner_of(request), {}};

  Store store = create_store(conf, request.network, release.host);
  store.lock();
  IndexUpdate update(store);
  result.ips = allocate(store, conf, release.owner, update.held_by(release.owner));
  update.complete();  // not before: a rejected ADD leaves no trace
  for (const cni::Address& address : result.ips) release.ips.push_back(address.cidr.ip);
  undo.add(release);
  return result;
}

// \throws cni::Error where the attachment has no lease, or the config is invalid.
void check(const cni::Request& request) {
  const Conf conf = Conf::parse(request, PodCidrs::kSkip);
  const auto store = Store::open(conf.data_dir, request.network, Host::current());
  const Owner owner = owner_of(request);
  // No lock is needed: leases are created and removed atomically.
  if (store && !store->owned(owner, hints_from(request)).empty()) return;
  throw Error(Code::kInternal,
              "host-local: Failed to find address added by container " + owner.container_id,
              cat("interface '", owner.ifname, "' in ", conf.data_dir, "/", request.network));
}

// Releases the attachment's leases. Needs no valid config and creates no directory.
void del(const cni::Request& request) {
  auto store = Store::open(data_dir_or_default(request), request.network, Host::current());
  if (!store) return;
  store->lock();
  IndexUpdate update(*store);
  store->release(owner_of(request), hints_from(request), [&update] { return update.complete(); });
}

// Releases leases that no valid attachment has; none without a list. \throws if it is malformed.
void gc(const cni::Request& request, cni::Collect& collect) {
  auto store = Store::open(data_dir_or_default(request), request.network, Host::known());
  if (!store) return;
  store->lock();
  cni::BestEffort each;
  if (collect.only_looks()) {
    free_stale(*store, request, collect, each);
    return each.finish();
  }
  IndexUpdate update(*store);
  free_stale(*store, request, collect, each);
  each("tidy up", [&] { tidy(*store); });
  update.complete();
  each.finish();
}

// ADD creates what does not exist of the path. \throws cni::Error(kPluginUnavailable).
void require_writable(std::filesystem::path path) {
  const auto exists = [&path] {
    return ::access(path.c_str(), W_OK | X_OK) == 0 || errno != ENOENT;
  };
  while (!exists() && path.has_relative_path()) path = path.parent_path();
  std::error_code error;
  int refused = ::access(path.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
  if (!std::filesystem::is_directory(path, error) && !error) refused = ENOTDIR;
  if (refused == 0) return;
  throw Error(Code::kPluginUnavailable,
              cat("ipam.dataDir: write to '", path.string(), "': ", netlink::errno_text(refused)),
              "no pod can get an address");
}

Conf conf_for_status(const cni::Request& request) try {
  return Conf::parse_without_attachment(request, PodCidrs::kRead);
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
  require_writable(std::filesystem::absolute(conf.data_dir) / request.network);
  const auto store = Store::open(conf.data_dir, request.network, Host::current());
  if (!store) return;
  const auto all_used = store->used();
  for (const RangeSet& set : conf.sets) {
    const auto used = used_of(set, all_used);
    if (used.size() < set.size()) continue;
    if (!survey(*store, used).dead.empty()) continue;  // ADD would reclaim it
    cni::note(cat("host-local: no IP addresses available in range set: ", set.str()));
  }
}

void validate(const cni::Request& request) {
  Conf::parse_without_attachment(request, PodCidrs::kSkip);
}

// A pod CIDR that is not known yet is no fault of the attachment.
Conf conf_for_repair(const cni::Request& request) try {
  return Conf::parse(request, PodCidrs::kRead);
} catch (const Error& e) {
  if (e.code() != Code::kTryAgainLater) throw;
  return Conf::parse(request, PodCidrs::kSkip);
}

// Writes the leases of the addresses in prevResult again.
cni::Result repair(const cni::Request& request, cni::Repair& repair) {
  const Conf conf = conf_for_repair(request);
  cni::Result result = request.required_prev_result();
  const Restoration leases(conf, request.network, owner_of(request), hints_from(request));
  leases.refuse_taken();
  repair.part([&] { leases.check(); }, [&] { leases.restore(); });
  return result;
}

}  // namespace

extern constinit const cni::Plugin kPlugin{.name = "host-local",
                                           .verbs = {add, del, check, gc, status, validate, repair},
                                           .manual = &kManual,
                                           .loading = ""};

}  // namespace host_local
