#include "plugins/leases/verbs.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>

#include "libcni/common/error.h"
#include "plugins/leases/allocate.h"
#include "plugins/leases/index_update.h"
#include "plugins/leases/restore.h"
#include "plugins/leases/stale.h"
#include "plugins/names/state.h"

namespace leases {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;

// DEL and GC release addresses even if ADD would reject the config.
std::string data_dir_or_default(const cni::Request& request, std::string_view plugin) {
  try {
    return data_dir_from(request);
  } catch (const Error& e) {
    cni::note(cat(plugin, ": ", e.what(), "; the default ", names::kHostLocalDataDir, " is used"));
    return std::string(names::kHostLocalDataDir);
  }
}

// Addresses of prevResult: only a hint, so an invalid one is not an error.
std::vector<Ip> hints_from(const cni::Request& request, std::string_view plugin) {
  std::vector<Ip> out;
  try {
    const auto previous = request.prev_result();
    if (!previous) return out;
    for (const cni::Address& address : previous->ips) out.push_back(address.cidr.ip);
  } catch (const Error& e) {
    cni::note(cat(plugin, ": ", e.what(), "; prevResult is ignored"));
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
}  // namespace

Owner owner_of(const cni::Request& request) {
  return {std::string(trimmed(request.container_id)), request.ifname};
}

Store create_store(const Conf& conf, const std::string& network, const Host& host) try {
  return Store::create(conf.data_dir, network, host);
} catch (const netlink::Error& e) {
  throw cni::error_of(e, cat("ipam.dataDir: \"", conf.data_dir, "\""));
}

std::vector<cni::Address> add(const Store& store, const Conf& conf, const Owner& owner,
                              cni::Undo& undo) {
  IndexUpdate update(store);
  auto out = allocate(store, conf, owner, update.held_by(owner));
  update.complete();  // not before: a rejected ADD leaves no trace
  ReleaseMade release{conf.data_dir, store.network(), store.host(), owner, {}};
  for (const cni::Address& address : out) release.ips.push_back(address.cidr.ip);
  undo.add(release);
  return out;
}

void check(const cni::Request& request, const std::string& data_dir, std::string_view plugin) {
  const auto store = Store::open(data_dir, request.network, Host::current(plugin));
  const Owner owner = owner_of(request);
  // No lock is needed: leases are created and removed atomically.
  if (store && !store->owned(owner, hints_from(request, plugin)).empty()) return;
  throw Error(Code::kInternal,
              cat(plugin, ": Failed to find address added by container ", owner.container_id),
              cat("interface '", owner.ifname, "' in ", data_dir, "/", request.network));
}

void del(const cni::Request& request, std::string_view plugin) {
  auto store =
      Store::open(data_dir_or_default(request, plugin), request.network, Host::current(plugin));
  if (!store) return;
  store->lock();
  IndexUpdate update(*store);
  store->release(owner_of(request), hints_from(request, plugin),
                 [&update] { return update.complete(); });
}

void gc(const cni::Request& request, cni::Collect& collect, std::string_view plugin) {
  auto store =
      Store::open(data_dir_or_default(request, plugin), request.network, Host::known(plugin));
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

// ADD creates what does not exist of the path.
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

cni::Result repair(const cni::Request& request, const Conf& conf, cni::Repair& repair,
                   std::string_view plugin) {
  cni::Result result = request.required_prev_result();
  const Restoration leases(conf, request.network, owner_of(request), hints_from(request, plugin));
  leases.refuse_taken();
  repair.part([&] { leases.check(); }, [&] { leases.restore(); });
  return result;
}

}  // namespace leases
