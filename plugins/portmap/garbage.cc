#include "plugins/portmap/garbage.h"

#include <set>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "libcni/common/undo.h"
#include "netlink/nf/socket.h"
#include "plugins/portmap/flush.h"
#include "plugins/portmap/iptables.h"
#include "plugins/portmap/nftables.h"
#include "plugins/portmap/record.h"
#include "plugins/portmap/setup.h"

namespace portmap {

namespace {

using cni::cat;
using netlink::nf::Batch;
using netlink::nf::NfSocket;

/// What is valid, and what was seen to be in use by whom.
class Census {
 public:
  Census(const std::string& network, const std::vector<cni::Attachment>& valid)
      : network_start_(cat(cni::OwnerTag(network, "", "").network_hash, "-")) {
    for (const cni::Attachment& one : valid) {
      const Owner owner{network, one.container_id, one.ifname};
      keep_.insert(owner.tag());
      containers_.insert(one.container_id);
      hashes_in_use_.insert(owner.container_hash());
    }
  }

  bool keeps(const Owner& owner) const { return keep_.contains(owner.tag()); }
  bool keeps_container(const std::string& id) const { return containers_.contains(id); }
  /// Asked once of everything that is there: remembers whose it is that stays.
  bool is_to_go(const std::string& tag) {
    if (tag.starts_with(network_start_) && !keep_.contains(tag)) return true;
    hashes_in_use_.insert(Owner::container_hash_in(tag));
    return false;
  }
  bool in_use(const std::string& container_hash) const {
    return hashes_in_use_.contains(container_hash);
  }

 private:
  std::string network_start_;
  std::set<std::string> keep_, containers_, hashes_in_use_;
};

void take_down_recorded(const Records& records, const std::string& network, const Census& census,
                        cni::BestEffort& each) {
  for (const std::string& hash : records.all()) {
    for (const Attachment& one : records.read(hash).attachments) {
      if (one.owner.network != network || census.keeps(one.owner)) continue;
      each(one.owner.str(), [&] { take_down(one.owner, {}); });
    }
  }
}

void sweep_elements(NfSocket& socket, Census& census) {
  std::vector<Claim> gone;
  const auto is_to_go = [&](const std::string& tag) { return census.is_to_go(tag); };
  socket.commit_planned([&](Batch& batch) { gone = nft::plan_sweep(socket, is_to_go, batch); });
  forget_redirected(socket, gone);
}

void sweep_iptables(NfSocket* socket, const std::string& network, const Census& census,
                    cni::BestEffort& each) {
  for (const Owner& owner : iptables::owners(socket, network)) {
    if (census.keeps_container(owner.container_id)) continue;
    each(owner.str(), [&] { iptables::remove(socket, owner); });
  }
}

// Records that cannot be read, of containers that have nothing any more.
void discard_broken(const Records& records, const Census& census) {
  for (const std::string& hash : records.all()) {
    const auto reading = records.read(hash);
    if (reading.there && reading.attachments.empty() && !census.in_use(hash)) records.discard(hash);
  }
}

}  // namespace

void collect_garbage(const std::string& network, const std::vector<cni::Attachment>& valid) {
  Census census(network, valid);
  cni::BestEffort each;
  const auto records = Records::find();
  if (records) {
    each("records", [&] { take_down_recorded(*records, network, census, each); });
  }
  auto socket = NfSocket::find();
  netlink::Fd lock;
  if (records) each("lock the records", [&] { lock = records->lock(); });
  if (socket) each("nf_tables", [&] { sweep_elements(*socket, census); });
  each("iptables", [&] { sweep_iptables(socket ? &*socket : nullptr, network, census, each); });
  if (records) {
    each("claims", [&] {
      records->release_if([&](const std::string& tag) { return census.is_to_go(tag); });
    });
    each("broken records", [&] { discard_broken(*records, census); });
  }
  each.finish();
}

}  // namespace portmap
