#include "plugins/portmap/setup.h"

#include <algorithm>
#include <set>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "libcni/plugin/privileges.h"
#include "plugins/common/xt_tables.h"
#include "plugins/portmap/conflict.h"
#include "plugins/portmap/flush.h"
#include "plugins/portmap/iptables.h"
#include "plugins/portmap/nftables.h"

namespace portmap {

namespace {

using cni::cat;
using netlink::nf::Batch;
using netlink::nf::NfSocket;

std::set<Key> keys_of(const std::vector<Claim>& claims) {
  std::set<Key> out;
  for (const Claim& claim : claims) out.insert(claim.key);
  return out;
}

std::vector<Claim> claims_with(const std::vector<Claim>& claims, const std::set<Key>& keys) {
  std::vector<Claim> out;
  std::copy_if(claims.begin(), claims.end(), std::back_inserter(out),
               [&](const Claim& claim) { return keys.contains(claim.key); });
  return out;
}

std::optional<Attachment> attachment_with(const Container& container, const std::string& tag) {
  for (const Attachment& one : container) {
    if (one.owner.tag() == tag) return one;
  }
  return std::nullopt;
}

/// One transaction at the ports of a node: what every step needs to know.
struct Site {
  NfSocket* socket;
  const Records& records;
};

// The attachments that share the chain of a container and network.
Container sharing(const Container& container, const std::string& network) {
  Container out;
  std::copy_if(container.begin(), container.end(), std::back_inserter(out),
               [&](const Attachment& one) {
                 return one.backend == Backend::kIptables && one.owner.network == network;
               });
  return out;
}

// The container's attachments but this one.
Container others_of(const Site& site, const Owner& owner) {
  Container out = site.records.read(owner.container_hash()).attachments;
  std::erase_if(out, [&](const Attachment& one) { return one.owner == owner; });
  return out;
}

// Returns the claims that it really had.
std::vector<Claim> remove_iptables(const Site& site, const Attachment& attachment) {
  iptables::remove(site.socket, attachment.owner);
  std::vector<Claim> gone;
  for (const Claim& claim : attachment.claims) {
    if (site.records.release(claim.key, attachment.owner)) gone.push_back(claim);
  }
  const Container rest = sharing(others_of(site, attachment.owner), attachment.owner.network);
  if (!rest.empty()) iptables::add(site.socket, with_siblings(rest[0], rest), rest[0].pod);
  return gone;
}

std::vector<Claim> remove_nftables(const Site& site, const Attachment& attachment) {
  std::vector<Claim> gone;
  if (site.socket == nullptr) return gone;
  site.socket->commit_planned(
      [&](Batch& batch) { gone = nft::plan_remove(*site.socket, attachment, batch); });
  return gone;
}

// Takes one claim from an attachment, which keeps its others if it lives.
void evict_one(const Site& site, Attachment owner, const Claim& claim) {
  if (owner.backend == Backend::kNftables) {
    owner.claims = {claim};
    remove_nftables(site, owner);
    return;
  }
  site.records.release(claim.key, owner.owner);
  std::erase_if(owner.claims, [&](const Claim& other) { return other.key == claim.key; });
  site.records.put(owner);
  if (owner.claims.empty() || !is_alive(owner)) {
    remove_iptables(site, owner);
    return;
  }
  Container all = others_of(site, owner.owner);
  all.push_back(owner);
  iptables::add(site.socket, with_siblings(owner, all), owner.pod);
}

// Takes a key from a container: the rules of its other networks would have it next.
void evict(const Site& site, const std::string& container, const Key& key) {
  for (const Attachment& one : site.records.read(container).attachments) {
    const auto theirs = claims_with(one.claims, {key});
    if (!theirs.empty()) evict_one(site, one, theirs[0]);
  }
}

// Settles who has the key, where the kernel's own answer will not: the iptables backend lets any
// number of claims in, and each backend does not know of the other.
void settle(const Site& site, const Attachment& wanted, const Claim& claim, OnConflict policy,
            const std::string& tag, std::vector<Claim>& taken) {
  if (tag.empty() || tag == wanted.owner.tag()) return;
  const std::string container = Owner::container_hash_in(tag);
  const auto owner = attachment_with(site.records.read(container).attachments, tag);
  nft::Held held{claim, tag};
  if (owner) {
    const auto theirs = claims_with(owner->claims, {claim.key});
    if (!theirs.empty()) held.claim = theirs[0];
  }
  if (judge(site.records, policy, wanted, held) == nft::Answer::kLeave || !owner) return;
  taken.push_back(held.claim);
  evict(site, container, claim.key);
}

std::vector<Claim> set_up_nftables(const Site& site, const Attachment& wanted,
                                   const std::optional<Attachment>& before, OnConflict policy) {
  std::vector<Claim> taken;
  for (const Claim& claim : wanted.claims) {
    settle(site, wanted, claim, policy, site.records.claimant(claim.key), taken);
  }
  const bool same_backend = before && before->backend == Backend::kNftables;
  const auto more =
      nft::add(*site.socket, wanted, same_backend ? before : std::nullopt,
               [&](const nft::Held& held) { return judge(site.records, policy, wanted, held); });
  taken.insert(taken.end(), more.begin(), more.end());
  if (before && !same_backend) remove_iptables(site, *before);
  return taken;
}

std::vector<Claim> set_up_iptables(const Site& site, const Attachment& wanted,
                                   const std::optional<Attachment>& before, OnConflict policy) {
  std::vector<Claim> taken;
  for (const Claim& claim : wanted.claims) {
    if (site.socket != nullptr) {
      settle(site, wanted, claim, policy, nft::claimant(*site.socket, claim.key), taken);
    }
    settle(site, wanted, claim, policy, site.records.claimant(claim.key), taken);
  }
  if (before) {
    for (const Claim& claim : before->claims) site.records.release(claim.key, wanted.owner);
  }
  for (const Claim& claim : wanted.claims) {
    if (site.records.claimant(claim.key).empty()) site.records.claim(claim.key, wanted.owner);
  }
  const Container all = site.records.read(wanted.owner.container_hash()).attachments;
  iptables::add(site.socket, with_siblings(wanted, all), wanted.pod);
  if (before && before->backend == Backend::kNftables) remove_nftables(site, *before);
  return taken;
}

// The container's other attachments get the ports that they asked for in vain.
void pass_on(const Site& site, const std::vector<Claim>& gone, const Container& others) {
  std::set<Key> open = keys_of(gone);
  Batch batch;
  for (const Attachment& heir : others) {
    const auto inherited = claims_with(heir.claims, open);
    for (const Claim& claim : inherited) {
      open.erase(claim.key);
      if (heir.backend == Backend::kIptables) site.records.claim(claim.key, heir.owner);
    }
    if (heir.backend == Backend::kNftables) nft::plan_inherit(heir, inherited, batch);
  }
  if (site.socket != nullptr) site.socket->commit(batch);
}

std::vector<Claim> take_down_known(const Site& site, const Attachment& own) {
  const auto gone =
      own.backend == Backend::kNftables ? remove_nftables(site, own) : remove_iptables(site, own);
  const Container others = others_of(site, own.owner);
  if (!others.empty()) pass_on(site, gone, others);
  return gone;
}

// The keys that mappings may have asked for, whatever addresses the pod had.
std::vector<Key> possible_keys(const std::vector<Mapping>& mappings) {
  const PodAddresses any{Cidr{Ip::any(Family::kIpv4), 32}, Cidr{Ip::any(Family::kIpv6), 128}};
  std::vector<Key> out;
  for (const Claim& claim : claims_of(mappings, any)) out.push_back(claim.key);
  return out;
}

bool has_any(NfSocket& socket, const Owner& owner, const std::vector<Mapping>& mappings) {
  const auto keys = possible_keys(mappings);
  return std::any_of(keys.begin(), keys.end(),
                     [&](const Key& key) { return nft::claimant(socket, key) == owner.tag(); });
}

// What the reference set up, or what lost its record.
std::vector<Claim> take_down_unknown(NfSocket* socket, const Owner& owner,
                                     const std::vector<Mapping>& mappings, bool lost_record) {
  std::vector<Claim> gone;
  cni::BestEffort each;
  if (socket != nullptr) {
    each("nf_tables", [&] {
      const bool sweep = lost_record || has_any(*socket, owner, mappings);
      socket->commit_planned([&](Batch& batch) {
        const std::string tag = owner.tag();
        if (sweep) {
          gone = nft::plan_sweep(
              *socket, [&](const std::string& one) { return one == tag; }, batch);
        }
        reference_nft::plan_remove(*socket, owner.container_id, batch);
      });
    });
  }
  each("iptables", [&] { iptables::remove(socket, owner); });
  each.finish();
  return gone;
}

void release_unknown(const Records& records, const Owner& owner,
                     const std::vector<Mapping>& mappings, bool lost_record) {
  if (lost_record) {
    records.release_if([&](const std::string& tag) { return tag == owner.tag(); });
    return;
  }
  for (const Key& key : possible_keys(mappings)) records.release(key, owner);
}

std::vector<Claim> take_down_locked(NfSocket* socket, const std::optional<Records>& records,
                                    const Owner& owner, const std::vector<Mapping>& mappings) {
  Records::Reading reading;
  if (records) reading = records->read(owner.container_hash());
  std::vector<Claim> gone;
  if (const auto own = attachment_with(reading.attachments, owner.tag())) {
    gone = take_down_known({socket, *records}, *own);
  } else {
    const bool lost_record = reading.there && reading.attachments.empty();
    if (!lost_record && mappings.empty()) return gone;
    gone = take_down_unknown(socket, owner, mappings, lost_record);
    if (records) release_unknown(*records, owner, mappings, lost_record);
  }
  if (records) records->remove(owner);
  return gone;
}

NfSocket* pointer(std::optional<NfSocket>& socket) { return socket ? &*socket : nullptr; }

}  // namespace

Backend choose_backend(std::optional<Backend> configured, NfSocket* socket) {
  std::string missing;
  if (configured != Backend::kIptables) {
    if (socket != nullptr && (configured || nft::usable(*socket))) return Backend::kNftables;
    missing = "the kernel has no NAT for nf_tables";
  }
  if (configured != Backend::kNftables) {
    const auto unusable = iptables::unusable();
    if (!unusable) return Backend::kIptables;
    missing += cat(missing.empty() ? "" : ", and ", *unusable);
  }
  throw cni::Error(cni::Code::kPluginUnavailable, cat("choose a backend for hostPorts: ", missing));
}

Attachment with_siblings(const Attachment& attachment, const Container& container) {
  Attachment out = attachment;
  out.claims.clear();
  std::set<Key> taken;
  const auto append = [&](const Attachment& one) {
    for (const Claim& claim : one.claims) {
      if (taken.insert(claim.key).second) out.claims.push_back(claim);
    }
  };
  bool is_there = false;
  for (const Attachment& other : sharing(container, attachment.owner.network)) {
    const bool itself = other.owner == attachment.owner;
    is_there = is_there || itself;
    append(itself ? attachment : other);
  }
  if (!is_there) append(attachment);
  return out;
}

std::vector<Claim> set_up(NfSocket* socket, Attachment& attachment,
                          std::optional<Backend> configured, OnConflict policy) {
  const cni::Phase phase("ports");
  attachment.backend = choose_backend(configured, socket);
  const Records records = Records::create();
  const netlink::Fd lock = records.lock();
  const auto before = records.put(attachment);
  const Site site{socket, records};
  if (attachment.backend == Backend::kNftables) {
    return set_up_nftables(site, attachment, before, policy);
  }
  return set_up_iptables(site, attachment, before, policy);
}

void take_down(const Owner& owner, const std::vector<Mapping>& mappings) {
  const cni::Phase phase("ports");
  const auto records = Records::find();
  const bool known = records && records->has(owner.container_hash());
  if (!known && mappings.empty()) return;
  cni::require_capabilities("remove hostPorts", {netlink::Capability::kNetAdmin});
  plugins::require_readable_legacy("remove hostPorts");
  // Closing the socket waits for the kernel to free what was deleted: without the lock.
  auto socket = NfSocket::find();
  std::vector<Claim> gone;
  {
    netlink::Fd lock;
    if (records) lock = records->lock();
    gone = take_down_locked(pointer(socket), records, owner, mappings);
  }
  if (socket) forget_redirected(*socket, gone);
}

}  // namespace portmap
