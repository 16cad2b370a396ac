#include "plugins/portmap/migrate.h"

#include <algorithm>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "plugins/common/firewall/iptables_restore.h"
#include "plugins/portmap/conflict.h"
#include "plugins/portmap/iptables/chains.h"
#include "plugins/portmap/port_claims.h"
#include "plugins/portmap/reference/reference.h"
#include "plugins/portmap/services.h"

namespace portmap {

namespace {

namespace nf = netlink::nf;
using cni::cat;

// The reference plugin prefers iptables.
bool is_iptables_of_reference(const Conf& conf) {
  return conf.backend ? conf.backend == BackendName::kIptables : !plugins::lacks_restore();
}

std::optional<Attachment> known(const std::optional<StateDir>& state, const Owner& owner) {
  return state ? find_attachment(*state, owner) : std::nullopt;
}

bool owns_elements(nf::NfSocket* socket, const Attachment& attachment) {
  const Owners all = nft::kBackend.owners({socket, nullptr}, attachment);
  return std::ranges::any_of(all, [&](const auto& one) { return one.second == attachment.tag(); });
}

std::optional<std::string> missing_in_own(nf::NfSocket* socket,
                                          const std::optional<Attachment>& before,
                                          const Attachment& attachment) {
  const std::string chain = iptables::chain_of(attachment.owner);
  const bool has_chain = iptables::has_chain(socket, attachment.owner);
  const bool has_rules = socket != nullptr && reference::has_some(*socket, attachment);
  if (has_rules) return "hostPorts: rules in table 'cni_hostport' to be replaced";
  if (!before) {
    return has_chain ? cat("hostPorts: chain '", chain, "' to be replaced")
                     : "hostPorts: to be mapped, they have no state file";
  }
  if (before->backend == BackendName::kIptables || !has_chain) return std::nullopt;
  return cat("hostPorts: chain '", chain, "' to be removed");
}

void put_own(const Context& context, const Conf& conf, Attachment wanted) {
  const auto before = find_attachment(*context.state, wanted.owner);
  wanted.backend = before ? before->backend : choose_backend(conf.backend, context.socket);
  Plan todo = plan(context, wanted, OnConflict::kRefuseClaimed);
  todo.before = before ? before : wanted;
  functions_of(wanted.backend).apply(context, todo);
  if (wanted.backend == BackendName::kNftables) {
    iptables::remove(context.socket, wanted.owner);
    // plan() may have made them, by the rules of the reference plugin.
    for (const Claim& claim : wanted.claims)
      PortClaims(*context.state).release(claim.key, wanted.tag());
  }
  if (context.socket != nullptr) reference::remove(*context.socket, wanted);
  put_attachment(*context.state, wanted);
}

void put_reference(const Context& context, const Conf& conf, const Attachment& attachment) {
  const bool is_iptables = is_iptables_of_reference(conf);
  if (!is_iptables && context.socket == nullptr) {
    throw cni::Error(cni::Code::kPluginUnavailable, netlink::nf::kNoNfTables);
  }
  const Attachment before = find_attachment(*context.state, attachment.owner).value_or(attachment);
  remove_attachment(*context.state, attachment.owner);
  is_iptables ? iptables::replace(context.socket, attachment, &conf.mappings)
              : reference::replace(*context.socket, attachment);
  nft::kBackend.remove(context, before);
  if (!is_iptables) iptables::remove(context.socket, attachment.owner);
  for (const Claim& claim : before.claims)
    PortClaims(*context.state).release(claim.key, attachment.tag());
}

}  // namespace

std::optional<std::string> form_difference(nf::NfSocket* socket, const Conf& conf,
                                           const Attachment& attachment, bool to_reference) {
  const auto before = known(StateDir::find(), attachment.owner);
  if (!to_reference) return missing_in_own(socket, before, attachment);
  const bool is_iptables = is_iptables_of_reference(conf);
  const std::string form = is_iptables ? cat("chain '", iptables::chain_of(attachment.owner), "'")
                                       : "rules in table 'cni_hostport'";
  if (before || owns_elements(socket, attachment)) return cat("hostPorts: ", form, " to be added");
  if (is_iptables) return iptables::missing(socket, attachment, &conf.mappings);
  if (socket != nullptr && reference::has_all(*socket, attachment)) return std::nullopt;
  return cat("hostPorts: ", form, " to be added");
}

void put_form(nf::NfSocket* socket, const Conf& conf, const Attachment& attachment,
              bool to_reference) {
  const cni::Phase phase("ports");
  const StateDir state = StateDir::create();
  const netlink::Fd lock = state.lock();
  const Context context{socket, &state};
  to_reference ? put_reference(context, conf, attachment) : put_own(context, conf, attachment);
}

}  // namespace portmap
