#include "plugins/portmap/services.h"

#include <linux/netfilter.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <set>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "netlink/nf/socket.h"
#include "plugins/common/firewall/iptables_restore.h"
#include "plugins/common/firewall/xt_tables.h"
#include "plugins/portmap/nftables/elements.h"
#include "plugins/portmap/nftables/table.h"
#include "plugins/portmap/ports.h"

namespace portmap {

namespace {

namespace nf = netlink::nf;
using cni::cat;

bool accepts(const nf::Rule& rule) {
  return std::ranges::any_of(rule.exprs, [](const nf::Expr& expr) {
    const auto* const verdict = std::get_if<nf::Verdict>(&expr);
    return verdict != nullptr && verdict->code == NF_ACCEPT;
  });
}

// Whether kube-proxy runs in IPVS mode.
bool exempts_services(nf::NfSocket* socket) {
  if (::if_nametoindex("kube-ipvs0") != 0) return true;
  if (errno != ENODEV) throw netlink::Error("look up link 'kube-ipvs0'", errno);
  if (socket == nullptr) return false;
  std::vector<nf::ChainId> chains;
  for (const Family family : netlink::kFamilies) {
    chains.push_back(plugins::xt::nat(family, "KUBE-SERVICES"));
  }
  const auto exists = socket->has_chains(chains);
  for (std::size_t i = 0; i < chains.size(); ++i) {
    if (!exists[i]) continue;
    // The chain is short in IPVS mode; in iptables mode it has a rule for each Service.
    const auto first = nf::NfSocket::first_rules(chains[i]);
    if (std::ranges::any_of(first, accepts)) return true;
  }
  return false;
}

// The reason to detect iptables although nf_tables can be used.
bool prefers_iptables(nf::NfSocket* socket) {
  if (!exempts_services(socket)) return false;
  const auto unusable = plugins::lacks_restore();
  if (!unusable) return true;
  cni::note(cat("hostPorts precede Services of kube-proxy in IPVS mode: ", *unusable));
  return false;
}

bool is_movable(const Attachment& one) {
  return one.detected && one.backend == BackendName::kNftables;
}

// Only owners of elements in nftables may have to move: none on a node whose ports are in
// iptables, however many pods it has.
std::vector<Owner> movable_owners(nf::NfSocket& socket, const StateDir& state) {
  std::set<std::string> containers;
  for (const Tag& tag : nft::all_owners(socket)) containers.insert(tag.container());
  std::vector<Owner> out;
  cni::BestEffort each;  // without those whose state file is of a later format
  for (const std::string& container : containers) {
    each("state file", [&] {
      for (const Attachment& one : attachments_of(state, container)) {
        if (is_movable(one)) out.push_back(one.owner);
      }
    });
  }
  return out;
}

void move_all(nf::NfSocket& socket, const StateDir& state, const std::vector<Owner>& owners) {
  const netlink::Fd lock = state.lock();
  cni::BestEffort each;
  for (const Owner& owner : owners) {
    each(owner.as_owner(), [&] {
      // Again, under the lock, and because the step before may have taken ports from it.
      const auto now = find_attachment(state, owner);
      if (now && is_movable(*now)) move_to_iptables({&socket, &state}, *now);
    });
  }
  each.finish();
}

}  // namespace

BackendName choose_backend(std::optional<BackendName> configured, nf::NfSocket* socket) {
  std::string missing;
  if (configured != BackendName::kIptables) {
    const bool usable = socket != nullptr && (configured || nft::usable(*socket));
    if (usable && !configured && prefers_iptables(socket)) return BackendName::kIptables;
    if (usable) return BackendName::kNftables;
    missing = netlink::nf::kNoNat;
  }
  if (configured != BackendName::kNftables) {
    const auto unusable = plugins::lacks_restore();
    if (!unusable) return BackendName::kIptables;
    missing += cat(missing.empty() ? "" : ", and ", *unusable);
  }
  throw cni::Error(cni::Code::kPluginUnavailable, cat("choose a backend for hostPorts: ", missing));
}

bool precedes_services(BackendName backend, std::optional<BackendName> configured,
                       nf::NfSocket* socket) {
  return !configured && backend == BackendName::kNftables && prefers_iptables(socket);
}

void yield_to_services(bool seen) noexcept try {
  const auto state = StateDir::find();
  if (!state || (!seen && ::if_nametoindex("kube-ipvs0") == 0)) return;
  auto socket = nf::NfSocket::find();
  if (!socket) return;
  const cni::Phase phase("services");
  const auto owners = movable_owners(*socket, *state);
  if (owners.empty() || !exempts_services(&*socket) || plugins::lacks_restore()) return;
  move_all(*socket, *state, owners);
} catch (const std::exception& e) {
  cni::note(cat("hostPorts precede Services of kube-proxy in IPVS mode: ", e.what()));
}

}  // namespace portmap
