#include "plugins/portmap/setup.h"

#include <algorithm>
#include <set>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "libcni/plugin/privileges.h"
#include "plugins/common/firewall/xt_tables.h"
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

std::optional<AttachmentState> attachment_with(const ContainerState& container,
                                               const std::string& tag) {
  for (const AttachmentState& one : container) {
    if (one.owner.tag() == tag) return one;
  }
  return std::nullopt;
}

/// What every step of one call uses.
struct Context {
  NfSocket* socket;
  const StateDir& state;
};

// The attachments that share the chain of a container and network.
ContainerState sharing(const ContainerState& container, const std::string& network) {
  ContainerState out;
  std::copy_if(container.begin(), container.end(), std::back_inserter(out),
               [&](const AttachmentState& one) {
                 return one.backend == Backend::kIptables && one.owner.network == network;
               });
  return out;
}

// The other attachments of the container.
ContainerState others_of(const Context& context, const Owner& owner) {
  ContainerState out = context.state.read(owner.container_hash()).attachments;
  std::erase_if(out, [&](const AttachmentState& one) { return one.owner == owner; });
  return out;
}

// Returns the claims that the attachment owned.
std::vector<Claim> remove_iptables(const Context& context, const AttachmentState& attachment) {
  iptables::remove(context.socket, attachment.owner);
  std::vector<Claim> gone;
  for (const Claim& claim : attachment.claims) {
    if (context.state.release(claim.key, attachment.owner)) gone.push_back(claim);
  }
  const ContainerState rest =
      sharing(others_of(context, attachment.owner), attachment.owner.network);
  if (!rest.empty()) iptables::add(context.socket, with_shared_claims(rest[0], rest));
  return gone;
}

std::vector<Claim> remove_nftables(const Context& context, const AttachmentState& attachment) {
  std::vector<Claim> gone;
  if (context.socket == nullptr) return gone;
  context.socket->commit_planned(
      [&](Batch& batch) { gone = nft::plan_remove(*context.socket, attachment, batch); });
  return gone;
}

// Removes one claim of an attachment. It keeps the others if it exists.
void remove_claim_of(const Context& context, AttachmentState owner, const Claim& claim) {
  if (owner.backend == Backend::kNftables) {
    owner.claims = {claim};
    remove_nftables(context, owner);
    return;
  }
  context.state.release(claim.key, owner.owner);
  std::erase_if(owner.claims, [&](const Claim& other) { return other.key == claim.key; });
  context.state.put(owner);
  if (owner.claims.empty() || !owner_exists(owner)) {
    remove_iptables(context, owner);
    return;
  }
  ContainerState all = others_of(context, owner.owner);
  all.push_back(owner);
  iptables::add(context.socket, with_shared_claims(owner, all));
}

// Removes a key from all networks of a container: rules of the next one would match instead.
void remove_claim(const Context& context, const std::string& container, const Key& key) {
  for (const AttachmentState& one : context.state.read(container).attachments) {
    const auto theirs = claims_with(one.claims, {key});
    if (!theirs.empty()) remove_claim_of(context, one, theirs[0]);
  }
}

// Resolves conflicts that the kernel does not report: iptables accepts any number of rules for a
// port, and neither backend reports claims of the other.
void resolve(const Context& context, const AttachmentState& wanted, const Claim& claim,
             OnConflict policy, const std::string& tag, std::vector<Claim>& taken) {
  if (tag.empty() || tag == wanted.owner.tag()) return;
  const std::string container = Owner::container_hash_in(tag);
  const auto owner = attachment_with(context.state.read(container).attachments, tag);
  nft::Conflict conflict{claim, tag};
  if (owner) {
    const auto theirs = claims_with(owner->claims, {claim.key});
    if (!theirs.empty()) conflict.claim = theirs[0];
  }
  if (resolve_conflict(context.state, policy, wanted, conflict) == nft::Resolution::kKeep || !owner)
    return;
  taken.push_back(conflict.claim);
  remove_claim(context, container, claim.key);
}

std::vector<Claim> set_up_nftables(const Context& context, const AttachmentState& wanted,
                                   const std::optional<AttachmentState>& before,
                                   OnConflict policy) {
  std::vector<Claim> taken;
  for (const Claim& claim : wanted.claims) {
    resolve(context, wanted, claim, policy, context.state.claimant(claim.key), taken);
  }
  const bool same_backend = before && before->backend == Backend::kNftables;
  const auto more = nft::add(*context.socket, wanted, same_backend ? before : std::nullopt,
                             [&](const nft::Conflict& conflict) {
                               return resolve_conflict(context.state, policy, wanted, conflict);
                             });
  taken.insert(taken.end(), more.begin(), more.end());
  if (before && !same_backend) remove_iptables(context, *before);
  return taken;
}

std::vector<Claim> set_up_iptables(const Context& context, const AttachmentState& wanted,
                                   const std::optional<AttachmentState>& before,
                                   OnConflict policy) {
  std::vector<Claim> taken;
  bool in_nftables = false;  // also if the state file was lost
  for (const Claim& claim : wanted.claims) {
    if (context.socket != nullptr) {
      const std::string tag = nft::claimant(*context.socket, claim.key);
      in_nftables = in_nftables || tag == wanted.owner.tag();
      resolve(context, wanted, claim, policy, tag, taken);
    }
    resolve(context, wanted, claim, policy, context.state.claimant(claim.key), taken);
  }
  if (before) {
    for (const Claim& claim : before->claims) context.state.release(claim.key, wanted.owner);
  }
  for (const Claim& claim : wanted.claims) {
    if (context.state.claimant(claim.key).empty()) context.state.claim(claim.key, wanted.owner);
  }
  const ContainerState all = context.state.read(wanted.owner.container_hash()).attachments;
  iptables::add(context.socket, with_shared_claims(wanted, all));
  if (before && before->backend == Backend::kNftables) {
    remove_nftables(context, *before);
  } else if (in_nftables) {
    remove_nftables(context, wanted);
  }
  return taken;
}

// Maps released ports to other attachments of the container that request them.
void reassign(const Context& context, const std::vector<Claim>& gone,
              const ContainerState& others) {
  std::set<Key> open = keys_of(gone);
  Batch batch;
  for (const AttachmentState& next : others) {
    const auto passed = claims_with(next.claims, open);
    for (const Claim& claim : passed) {
      open.erase(claim.key);
      if (next.backend == Backend::kIptables) context.state.claim(claim.key, next.owner);
    }
    if (next.backend == Backend::kNftables) nft::plan_add(next, passed, batch);
  }
  if (context.socket != nullptr) context.socket->commit(batch);
}

std::vector<Claim> remove_by_state(const Context& context, const AttachmentState& own) {
  const auto gone = own.backend == Backend::kNftables ? remove_nftables(context, own)
                                                      : remove_iptables(context, own);
  const ContainerState others = others_of(context, own.owner);
  if (!others.empty()) reassign(context, gone, others);
  return gone;
}

// The keys of mappings for a pod with addresses of both families.
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

// Mappings of the reference plugin, or of a lost state file.
std::vector<Claim> remove_by_config(NfSocket* socket, const Owner& owner,
                                    const std::vector<Mapping>& mappings, bool lost_state) {
  std::vector<Claim> gone;
  cni::BestEffort each;
  if (socket != nullptr) {
    each("nf_tables", [&] {
      const bool sweep = lost_state || has_any(*socket, owner, mappings);
      socket->commit_planned([&](Batch& batch) {
        const std::string tag = owner.tag();
        if (sweep) {
          gone = nft::plan_remove_if(
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

void release_by_config(const StateDir& state, const Owner& owner,
                       const std::vector<Mapping>& mappings, bool lost_state) {
  if (lost_state) {
    state.release_if([&](const std::string& tag) { return tag == owner.tag(); });
    return;
  }
  for (const Key& key : possible_keys(mappings)) state.release(key, owner);
}

// The reason to detect iptables although nf_tables can be used.
bool prefers_iptables(NfSocket* socket) {
  if (!iptables::exempts_services(socket)) return false;
  const auto unusable = iptables::unusable();
  if (!unusable) return true;
  cni::note(cat("hostPorts precede Services of kube-proxy in IPVS mode: ", *unusable));
  return false;
}

NfSocket* pointer(std::optional<NfSocket>& socket) { return socket ? &*socket : nullptr; }

}  // namespace

Backend choose_backend(std::optional<Backend> configured, NfSocket* socket) {
  std::string missing;
  if (configured != Backend::kIptables) {
    const bool usable = socket != nullptr && (configured || nft::usable(*socket));
    if (usable && !configured && prefers_iptables(socket)) return Backend::kIptables;
    if (usable) return Backend::kNftables;
    missing = "the kernel has no NAT for nf_tables (modprobe nft_chain_nat)";
  }
  if (configured != Backend::kNftables) {
    const auto unusable = iptables::unusable();
    if (!unusable) return Backend::kIptables;
    missing += cat(missing.empty() ? "" : ", and ", *unusable);
  }
  throw cni::Error(cni::Code::kPluginUnavailable, cat("choose a backend for hostPorts: ", missing));
}

bool precedes_services(const AttachmentState& attachment, std::optional<Backend> configured,
                       NfSocket* socket) {
  return !configured && attachment.backend == Backend::kNftables && prefers_iptables(socket);
}

AttachmentState with_shared_claims(const AttachmentState& attachment,
                                   const ContainerState& container) {
  AttachmentState out = attachment;
  out.claims.clear();
  std::set<Key> taken;
  const auto append = [&](const AttachmentState& one) {
    for (const Claim& claim : one.claims) {
      if (taken.insert(claim.key).second) out.claims.push_back(claim);
    }
  };
  bool is_there = false;
  for (const AttachmentState& other : sharing(container, attachment.owner.network)) {
    const bool itself = other.owner == attachment.owner;
    is_there = is_there || itself;
    append(itself ? attachment : other);
  }
  if (!is_there) append(attachment);
  return out;
}

std::vector<Claim> set_up(NfSocket* socket, AttachmentState& attachment,
                          std::optional<Backend> configured, OnConflict policy) {
  const cni::Phase phase("ports");
  attachment.backend = choose_backend(configured, socket);
  const StateDir state = StateDir::create();
  const netlink::Fd lock = state.lock();
  const auto before = state.put(attachment);
  const Context context{socket, state};
  if (attachment.backend == Backend::kNftables) {
    return set_up_nftables(context, attachment, before, policy);
  }
  return set_up_iptables(context, attachment, before, policy);
}

void move_to_iptables(NfSocket& socket, const StateDir& state, AttachmentState attachment) {
  const std::string own = attachment.owner.container_hash();
  std::erase_if(attachment.claims, [&](const Claim& claim) {
    for (const std::string& tag : {nft::claimant(socket, claim.key), state.claimant(claim.key)}) {
      if (!tag.empty() && Owner::container_hash_in(tag) != own) return true;
    }
    return false;
  });
  if (attachment.claims.empty()) return;
  attachment.backend = Backend::kIptables;
  attachment.by_link = false;
  const auto before = state.put(attachment);
  set_up_iptables({&socket, state}, attachment, before, OnConflict::kReplace);
}

std::vector<Claim> remove_locked(NfSocket* socket, const std::optional<StateDir>& state,
                                 const Owner& owner, const std::vector<Mapping>& mappings) {
  StateDir::Reading reading;
  if (state) reading = state->read(owner.container_hash());
  std::vector<Claim> gone;
  if (const auto own = attachment_with(reading.attachments, owner.tag())) {
    gone = remove_by_state({socket, *state}, *own);
  } else {
    const bool lost_state = reading.exists && reading.attachments.empty();
    if (!lost_state && mappings.empty()) return gone;
    gone = remove_by_config(socket, owner, mappings, lost_state);
    if (state) release_by_config(*state, owner, mappings, lost_state);
  }
  if (state) state->remove(owner);
  return gone;
}

void remove_mappings(const Owner& owner, const std::vector<Mapping>& mappings) {
  const cni::Phase phase("ports");
  const auto state = StateDir::find();
  const bool known = state && state->has(owner.container_hash());
  if (!known && mappings.empty()) return;
  cni::require_capabilities("remove hostPorts", {netlink::Capability::kNetAdmin});
  plugins::require_readable_legacy("remove hostPorts");
  // The socket is closed after the lock is released: the kernel frees deleted objects meanwhile.
  auto socket = NfSocket::find();
  std::vector<Claim> gone;
  {
    netlink::Fd lock;
    if (state) lock = state->lock();
    gone = remove_locked(pointer(socket), state, owner, mappings);
  }
  if (socket) flush_redirected(*socket, gone);
}

}  // namespace portmap
