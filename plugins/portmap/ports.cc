#include "plugins/portmap/ports.h"

#include <algorithm>
#include <set>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "libcni/plugin/privileges.h"
#include "plugins/common/firewall/xt_tables.h"
#include "plugins/common/link/owned_links.h"
#include "plugins/portmap/conflict.h"
#include "plugins/portmap/flush.h"
#include "plugins/portmap/iptables/chains.h"
#include "plugins/portmap/iptables/lost_claims.h"
#include "plugins/portmap/port_claims.h"
#include "plugins/portmap/predecessors.h"
#include "plugins/portmap/reference/reference.h"
#include "plugins/portmap/services.h"

namespace portmap {

namespace {

namespace nf = netlink::nf;
using cni::cat;

nf::NfSocket* pointer(std::optional<nf::NfSocket>& socket) { return socket ? &*socket : nullptr; }
const StateDir* pointer(const std::optional<StateDir>& state) { return state ? &*state : nullptr; }

void forget_earlier_addresses(const StateDir& state, const Attachment& before,
                              const Attachment& now) {
  const auto targets = now.targets();
  for (const Ip& ip : before.targets()) {
    const bool stays = std::ranges::find(targets, ip) != targets.end();
    if (!stays) addresses_in(state).erase(ip, now.tag().str());
  }
}

// The backends change one after the other: the ports are mapped all the time.
void map_locked(const Context& context, const Attachment& attachment, OnConflict policy) {
  const auto before = put_attachment(*context.state, attachment);
  Plan todo = plan(context, attachment, policy);
  const bool is_nft = attachment.backend == BackendName::kNftables;
  const bool is_moved = before && before->backend != attachment.backend;
  if (!is_moved) todo.before = before;
  for (const Attachment& loser : todo.losers) {  // nftables removes its own in its transaction
    const bool is_of_nft = loser.backend == BackendName::kNftables;
    if (!is_nft || !is_of_nft) functions_of(loser.backend).remove(context, loser);
  }
  iptables::release_lost(context, todo.lost);
  functions_of(attachment.backend).apply(context, todo);
  if (is_moved) functions_of(before->backend).remove(context, *before);
  if (!before && !is_nft) nft::kBackend.remove(context, attachment);  // if the state file was lost
  if (before) forget_earlier_addresses(*context.state, *before, attachment);
}

// Maps released ports to other attachments of the container that request them.
void pass_on(const Context& context, const std::vector<Claim>& gone,
             const std::vector<Attachment>& others) {
  std::set<Key> open;
  for (const Claim& claim : gone) open.insert(claim.key);
  for (const Attachment& next : others) {
    Plan todo{next, {}, {}, {}};
    for (const Claim& claim : next.claims) {
      if (open.erase(claim.key) != 0) todo.granted.push_back(claim);
    }
    if (!todo.granted.empty()) functions_of(next.backend).apply(context, todo);
  }
}

// All claims that the mappings can make for the owner, whatever addresses its pod has.
Attachment possible_attachment(const Owner& owner, const std::vector<Mapping>& mappings) {
  Attachment out;
  out.owner = owner;
  out.claims =
      claims_of(mappings, {Cidr{Ip::any(Family::kIpv4), 32}, Cidr{Ip::any(Family::kIpv6), 128}});
  return out;
}

// Mappings of the reference plugin, or of a lost state file.
std::vector<Claim> remove_by_config(const Context& context, const Owner& owner,
                                    const std::vector<Mapping>& mappings, bool lost_state) {
  const Attachment possible = possible_attachment(owner, mappings);
  const Tag own = possible.tag();
  const auto is_own = [&](const Tag& tag) { return tag == own; };
  std::vector<Claim> gone;
  bool has_iptables = false;
  cni::BestEffort each;
  if (context.socket != nullptr) {
    each("nf_tables", [&] {
      const Owners all = nft::kBackend.owners(context, possible);
      const auto has = [&](const auto& one) { return is_own(one.second); };
      if (lost_state || std::ranges::any_of(all, has)) {
        gone = nft::kBackend.gc(context, {owner.network, is_own, {}});
      }
      reference::remove(*context.socket, owner.container_id);
    });
  }
  each("iptables", [&] { has_iptables = !iptables::kBackend.remove(context, possible).empty(); });
  if (lost_state) each("claims", [&] { PortClaims(*context.state).release_if(is_own); });
  if (context.state != nullptr && (lost_state || has_iptables || !gone.empty())) {
    each("addresses", [&] {
      addresses_in(*context.state).erase_if([&](const std::string& line) {
        return line == own.str();
      });
    });
  }
  each.finish();
  return gone;
}

bool takes(const Attachment& one, cni::Collect& collect) {
  bool out = one.claims.empty() && collect.takes("hostPorts", one.owner);
  for (const Claim& claim : one.claims) {
    out |= collect.takes(cat("hostPort: ", claim.key.str()), one.owner);
  }
  return out;
}

// Nothing for a file of a later format, which stays and stops no GC.
std::optional<std::vector<Attachment>> read_known(const StateDir& state, const std::string& hash,
                                                  bool is_noted) try {
  return attachments_of(state, hash);
} catch (const cni::Error& e) {
  if (is_noted) cni::note(e.what());
  return std::nullopt;
}

void unmap_by_state(const Context& context, cni::Collect& collect, cni::BestEffort& each) {
  std::vector<Claim> gone;
  for (const std::string& hash : containers_in(*context.state)) {
    std::vector<Attachment> found;
    each("state file", [&] { found = read_known(*context.state, hash, true).value_or(found); });
    for (const Attachment& one : found) {
      if (!takes(one, collect)) continue;
      each(one.owner.as_owner(), [&] {
        const auto claims = unmap_locked(context, one.owner, {});
        gone.insert(gone.end(), claims.begin(), claims.end());
      });
    }
  }
  if (context.socket != nullptr) flush_redirected(*context.socket, gone);
}

// Unreadable state files of containers without mappings. One of a later format stays.
void remove_broken_files(const StateDir& state, const std::set<std::string>& in_use) {
  cni::BestEffort each;
  for (const std::string& hash : containers_in(state)) {
    each("state file", [&] {
      const auto all = read_known(state, hash, false);
      if (all && all->empty() && !in_use.contains(hash)) state.dir().remove(hash);
    });
  }
}

// The containers that keep mappings are added to in_use.
void unmap_without_state(const Context& context, const std::string& network, cni::Collect& collect,
                         std::set<std::string>& in_use) {
  const Stale stale{
      network,
      [&](const Tag& tag) {
        const bool is_taken = collect.takes("hostPorts", tag.str());
        if (!is_taken) in_use.insert(tag.container());
        return is_taken;
      },
      [&](const std::string& container_id) {
        return collect.takes("hostPorts by iptables", Owner{network, container_id, ""});
      }};
  cni::BestEffort each;
  each("nf_tables", [&] {
    const auto gone = nft::kBackend.gc(context, stale);
    if (context.socket != nullptr) flush_redirected(*context.socket, gone);
  });
  each("iptables", [&] { iptables::kBackend.gc(context, stale); });
  each.finish();
}

}  // namespace

std::vector<Claim> unmap_locked(const Context& context, const Owner& owner,
                                const std::vector<Mapping>& mappings) {
  const std::string file = owner.container_hash();
  std::vector<Attachment> others;
  if (context.state != nullptr) others = attachments_of(*context.state, file);
  const bool lost_state =
      context.state != nullptr && others.empty() && context.state->dir().has_file(file);
  const auto own =
      std::ranges::find_if(others, [&](const Attachment& one) { return one.owner == owner; });
  std::vector<Claim> gone;
  if (own != others.end()) {
    gone = functions_of(own->backend).remove(context, *own);
    others.erase(own);
    pass_on(context, gone, others);
  } else if (lost_state || !mappings.empty()) {
    gone = remove_by_config(context, owner, mappings, lost_state);
  }
  if (context.state != nullptr) remove_attachment(*context.state, owner);
  return gone;
}

void map_ports(nf::NfSocket* socket, const Attachment& attachment, OnConflict policy) {
  const cni::Phase phase("ports");
  const StateDir state = StateDir::create();
  const netlink::Fd lock = state.lock();
  const Context context{socket, &state};
  unmap_predecessors(context, attachment);
  map_locked(context, attachment, policy);
}

void check_ports(nf::NfSocket* socket, const Conf& conf, const Attachment& attachment) {
  const auto state = StateDir::find();
  const auto known = state ? find_attachment(*state, attachment.owner) : std::nullopt;
  const bool is_iptables = conf.backend ? conf.backend == BackendName::kIptables
                                        : iptables::has_chain(socket, attachment.owner);
  if (!known && is_iptables) {  // which the reference plugin prefers
    return iptables::check(socket, attachment, &conf.mappings);
  }
  if (!known && socket != nullptr && reference::has_all(*socket, attachment)) return;
  const auto backend = known ? known->backend : choose_backend(conf.backend, socket);
  functions_of(backend).check({socket, pointer(state)}, attachment);
  if (!precedes_services(backend, conf.backend, socket)) return;
  throw cni::Error(cni::Code::kInternal,
                   "check port mappings: kube-proxy is in IPVS mode, and hostPorts "
                   "of the backend nftables precede its Services");
}

void require_state_file(nf::NfSocket* socket, const Attachment& attachment) {
  const auto state = StateDir::find();
  if (state && find_attachment(*state, attachment.owner)) return;
  const Owners all = nft::kBackend.owners({socket, nullptr}, attachment);
  const Tag own = attachment.tag();
  const bool is_nft = std::ranges::any_of(all, [&](const auto& one) { return one.second == own; });
  if (!is_nft && !iptables::has_own_chain(socket, attachment.owner)) return;
  throw cni::Error(cni::Code::kInternal, cat("check port mappings: its state file in '",
                                             Container::kDir, "' was removed"));
}

std::optional<BackendName> backend_to_repair(nf::NfSocket* socket, const Conf& conf,
                                             const Owner& owner) {
  const auto state = StateDir::find();
  const auto known = state ? find_attachment(*state, owner) : std::nullopt;
  if (known && !precedes_services(known->backend, conf.backend, socket)) return known->backend;
  const bool is_iptables = !known && !conf.backend && iptables::has_chain(socket, owner);
  return is_iptables ? BackendName::kIptables : conf.backend;
}

void unmap_ports(const Owner& owner, const std::vector<Mapping>& mappings) {
  const cni::Phase phase("ports");
  const auto state = StateDir::find();
  const bool known = state && state->dir().has(owner.container_hash());
  if (!known && mappings.empty()) return;
  cni::require_capabilities("remove hostPorts", {netlink::Capability::kNetAdmin});
  plugins::require_readable_legacy("remove hostPorts");
  // The socket is closed after the lock is released: the kernel frees deleted objects meanwhile.
  auto socket = nf::NfSocket::find();
  std::vector<Claim> gone;
  {
    netlink::Fd lock;
    if (state) lock = state->lock();
    gone = unmap_locked({pointer(socket), pointer(state)}, owner, mappings);
  }
  if (socket) flush_redirected(*socket, gone);
}

void move_to_iptables(const Context& context, Attachment attachment) {
  attachment.backend = BackendName::kIptables;
  const std::string own = attachment.owner.container_hash();
  for (const Backend* const backend : {&nft::kBackend, &iptables::kBackend}) {
    const Owners all = backend->owners(context, attachment);
    std::erase_if(attachment.claims, [&](const Claim& claim) {
      const auto found = all.find(claim.key);
      return found != all.end() && found->second.container() != own;
    });
  }
  if (!attachment.claims.empty()) map_locked(context, attachment, OnConflict::kReplace);
}

void unmap_stale(const std::string& network, cni::Collect& collect) {
  plugins::ask_host_veths(collect);
  const auto state = StateDir::find();
  auto socket = nf::NfSocket::find();
  const Context context{pointer(socket), pointer(state)};
  // GC removes under the lock, because an ADD may have mapped ports and not yet written its state
  // file.
  netlink::Fd lock;
  if (state) lock = state->lock();
  std::set<std::string> in_use;
  for (const cni::Attachment& one : collect.valid()) {
    in_use.insert(Owner{network, one.container_id, one.ifname}.container_hash());
  }
  cni::BestEffort each;
  if (state) each("state files", [&] { unmap_by_state(context, collect, each); });
  each("rules", [&] { unmap_without_state(context, network, collect, in_use); });
  if (state && !collect.only_looks()) {
    const auto is_stale = [&](const Tag& tag) {
      if (!collect.is_stale(tag.str())) in_use.insert(tag.container());
      return collect.is_stale(tag.str());
    };
    each("claims", [&] { PortClaims(*state).release_if(is_stale); });
    each("addresses", [&] { forget_addresses(*state, is_stale); });
    if (!collect.removes_named()) {
      each("broken state files", [&] { remove_broken_files(*state, in_use); });
    }
  }
  each.finish();
}

}  // namespace portmap
