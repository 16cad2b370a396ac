#include "plugins/portmap/gc.h"

#include <set>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "libcni/common/undo.h"
#include "netlink/nf/socket.h"
#include "plugins/portmap/flush.h"
#include "plugins/portmap/iptables.h"
#include "plugins/portmap/nftables.h"
#include "plugins/portmap/setup.h"
#include "plugins/portmap/state.h"

namespace portmap {

namespace {

using cni::cat;
using netlink::nf::Batch;
using netlink::nf::NfSocket;

/// The attachments to keep, and the containers that have mappings.
class ValidAttachments {
 public:
  ValidAttachments(const std::string& network, const std::vector<cni::Attachment>& valid)
      : network_start_(cat(cni::OwnerTag(network, "", "").network_hash, "-")) {
    for (const cni::Attachment& one : valid) {
      const Owner owner{network, one.container_id, one.ifname};
      keep_.insert(owner.tag());
      hashes_in_use_.insert(owner.container_hash());
    }
  }

  /// Called for the tag of every mapping. Notes the container if the mapping is not stale.
  bool is_stale(const std::string& tag) {
    if (tag.starts_with(network_start_) && !keep_.contains(tag)) return true;
    hashes_in_use_.insert(Owner::container_hash_in(tag));
    return false;
  }
  bool in_use(const std::string& container_hash) const {
    return hashes_in_use_.contains(container_hash);
  }

 private:
  std::string network_start_;
  std::set<std::string> keep_, hashes_in_use_;
};

bool takes(const AttachmentState& one, cni::Collect& collect) {
  const auto& [network, id, ifname] = one.owner;
  bool out = one.claims.empty() && collect.takes("hostPorts", network, {id, ifname});
  for (const Claim& claim : one.claims) {
    out |= collect.takes(cat("hostPort: ", claim.key.str()), network, {id, ifname});
  }
  return out;
}

void remove_by_state(NfSocket* socket, const std::optional<StateDir>& state, cni::Collect& collect,
                     cni::BestEffort& each) {
  std::vector<Claim> gone;
  for (const std::string& hash : state->all()) {
    for (const AttachmentState& one : state->read(hash).attachments) {
      if (!takes(one, collect)) continue;
      each(one.owner.str(), [&] {
        const auto claims = remove_locked(socket, state, one.owner, {});
        gone.insert(gone.end(), claims.begin(), claims.end());
      });
    }
  }
  if (socket != nullptr) flush_redirected(*socket, gone);
}

void remove_elements(NfSocket& socket, ValidAttachments& keep, cni::Collect& collect) {
  std::vector<Claim> gone;
  const auto is_stale = [&](const std::string& tag) {
    return keep.is_stale(tag) && collect.takes("hostPorts", tag);
  };
  socket.commit_planned([&](Batch& batch) { gone = nft::plan_remove_if(socket, is_stale, batch); });
  flush_redirected(socket, gone);
}

void remove_iptables_rules(NfSocket* socket, const std::string& network, cni::Collect& collect,
                           cni::BestEffort& each) {
  for (const Owner& owner : iptables::owners(socket, network)) {
    if (!collect.takes("hostPorts by iptables", network, {owner.container_id, ""})) continue;
    each(owner.str(), [&] { iptables::remove(socket, owner); });
  }
}

// Unreadable state files of containers without mappings.
void remove_broken_files(const StateDir& state, const ValidAttachments& keep) {
  for (const std::string& hash : state.all()) {
    const auto reading = state.read(hash);
    if (reading.exists && reading.attachments.empty() && !keep.in_use(hash)) state.discard(hash);
  }
}

}  // namespace

void remove_stale(const std::string& network, cni::Collect& collect) {
  ValidAttachments keep(network, collect.valid());
  const auto state = StateDir::find();
  auto socket = NfSocket::find();
  NfSocket* const rules = socket ? &*socket : nullptr;
  // Without the lock nothing is removed: an ADD may be about to write the state file of what it
  // has mapped.
  netlink::Fd lock;
  if (state) lock = state->lock();
  cni::BestEffort each;
  if (state) each("state files", [&] { remove_by_state(rules, state, collect, each); });
  if (socket) each("nf_tables", [&] { remove_elements(*socket, keep, collect); });
  each("iptables", [&] { remove_iptables_rules(rules, network, collect, each); });
  if (state && !collect.only_looks()) {
    each("claims",
         [&] { state->release_if([&](const std::string& tag) { return keep.is_stale(tag); }); });
    each("broken state files", [&] { remove_broken_files(*state, keep); });
  }
  each.finish();
}

}  // namespace portmap
