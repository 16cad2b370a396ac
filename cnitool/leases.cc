#include "cnitool/leases.h"

#include <algorithm>

#include "cnitool/output.h"
#include "libcni/common/error.h"
#include "plugins/state/dhcp_lease.h"

namespace tool {

namespace {

std::optional<std::int64_t> from_now(dhcp::Time time) {
  using std::chrono::seconds;
  if (time == dhcp::kNever) return std::nullopt;
  const auto now = cni::EventLoop::now();
  return (std::chrono::floor<seconds>(time) - std::chrono::floor<seconds>(now)).count();
}

DhcpLease lease_in(const dhcp::State& state) {
  DhcpLease out{.key = state.owner.key};
  if (!state.lease) return out;
  out.address = state.lease->address.str();
  out.server = state.lease->server.str();
  out.rebind = from_now(state.lease->rebind);
  out.expire = from_now(state.lease->expire);
  return out;
}

// None of another boot, and none that the daemon could not read.
std::optional<dhcp::State> state_in(const dhcp::StateDir& states, const std::string& name) try {
  auto state = states.read_file(name);
  return state && state->owner.key.tag() == name ? state : std::nullopt;
} catch (const cni::Error&) {
  return std::nullopt;
}

}  // namespace

std::vector<DhcpLease> dhcp_leases() {
  std::vector<DhcpLease> out;
  const auto states = dhcp::StateDir::find();
  if (!states) return out;
  for (const std::string& name : states->dir().names()) {
    if (const auto state = state_in(*states, name)) out.push_back(lease_in(*state));
  }
  return out;
}

std::optional<DhcpLease> lease_of(const cni::AttachmentKey& key) try {
  const auto states = dhcp::StateDir::find();
  const auto state = states ? state_in(*states, key.tag()) : std::nullopt;
  return state ? std::optional(lease_in(*state)) : std::nullopt;
} catch (const netlink::Error&) {
  return std::nullopt;
}

std::string describe(const DhcpLease& lease) {
  if (lease.address.empty()) return "was lost; another one is asked for";
  return cat("of ", lease.server,
             lease.expire ? cat(", ends in ", std::max<std::int64_t>(*lease.expire, 0), " s")
                          : ", does not end");
}

}  // namespace tool
