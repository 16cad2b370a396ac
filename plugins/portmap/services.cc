#include "plugins/portmap/services.h"

#include <net/if.h>

#include <algorithm>
#include <exception>

#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "plugins/portmap/iptables.h"
#include "plugins/portmap/setup.h"

namespace portmap {

namespace {

using netlink::nf::NfSocket;

bool is_movable(const AttachmentState& one) {
  return one.detected && one.backend == Backend::kNftables;
}

bool has_movable(const StateDir& state) {
  const auto all = state.all();
  return std::any_of(all.begin(), all.end(), [&](const std::string& container) {
    const ContainerState attachments = state.read(container).attachments;
    return std::any_of(attachments.begin(), attachments.end(), is_movable);
  });
}

void move_all(NfSocket& socket, const StateDir& state) {
  const netlink::Fd lock = state.lock();
  cni::BestEffort each;
  for (const std::string& container : state.all()) {
    for (const AttachmentState& one : state.read(container).attachments) {
      if (!is_movable(one)) continue;
      each(one.owner.str(), [&] {
        // Again, because the step before may have taken ports from it.
        const auto now = state.find(one.owner);
        if (now && is_movable(*now)) move_to_iptables(socket, state, *now);
      });
    }
  }
  each.finish();
}

}  // namespace

void yield_to_services(bool seen) noexcept try {
  const auto state = StateDir::find();
  if (!state || (!seen && ::if_nametoindex("kube-ipvs0") == 0)) return;
  if (!has_movable(*state)) return;
  const cni::Phase phase("services");
  auto socket = NfSocket::find();
  if (socket && iptables::exempts_services(&*socket) && !iptables::unusable()) {
    move_all(*socket, *state);
  }
} catch (const std::exception& e) {
  cni::note(cni::cat("hostPorts precede Services of kube-proxy in IPVS mode: ", e.what()));
}

}  // namespace portmap
