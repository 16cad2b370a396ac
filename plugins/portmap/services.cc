#include "plugins/portmap/services.h"

#include <net/if.h>

#include <exception>
#include <set>

#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "plugins/portmap/iptables.h"
#include "plugins/portmap/nftables.h"
#include "plugins/portmap/setup.h"

namespace portmap {

namespace {

using netlink::nf::NfSocket;

bool is_movable(const AttachmentState& one) {
  return one.detected && one.backend == Backend::kNftables;
}

// What nftables has is what may have to move: on a node whose ports are in iptables that is
// nothing, however many pods it has.
std::vector<Owner> movable_owners(NfSocket& socket, const StateDir& state) {
  std::set<std::string> containers;
  for (const std::string& tag : nft::owners(socket))
    containers.insert(Owner::container_hash_in(tag));
  std::vector<Owner> out;
  for (const std::string& container : containers) {
    for (const AttachmentState& one : state.read(container).attachments) {
      if (is_movable(one)) out.push_back(one.owner);
    }
  }
  return out;
}

void move_all(NfSocket& socket, const StateDir& state, const std::vector<Owner>& owners) {
  const netlink::Fd lock = state.lock();
  cni::BestEffort each;
  for (const Owner& owner : owners) {
    each(owner.str(), [&] {
      // Again, under the lock, and because the step before may have taken ports from it.
      const auto now = state.find(owner);
      if (now && is_movable(*now)) move_to_iptables(socket, state, *now);
    });
  }
  each.finish();
}

}  // namespace

void yield_to_services(bool seen) noexcept try {
  const auto state = StateDir::find();
  if (!state || (!seen && ::if_nametoindex("kube-ipvs0") == 0)) return;
  auto socket = NfSocket::find();
  if (!socket) return;
  const cni::Phase phase("services");
  const auto owners = movable_owners(*socket, *state);
  if (owners.empty() || !iptables::exempts_services(&*socket) || iptables::unusable()) return;
  move_all(*socket, *state, owners);
} catch (const std::exception& e) {
  cni::note(cni::cat("hostPorts precede Services of kube-proxy in IPVS mode: ", e.what()));
}

}  // namespace portmap
