#include "plugins/common/firewall/ip_masq.h"

#include <cerrno>

#include "libcni/common/error.h"
#include "libcni/plugin/privileges.h"
#include "plugins/common/firewall/iptables_restore.h"
#include "plugins/common/firewall/xt_tables.h"
#include "plugins/common/link/host_veth.h"

namespace plugins {

namespace {

using netlink::NetNs;
using netlink::RouteSocket;

// Empty if it may not be opened: the port and its rules on the node can be removed without it.
std::optional<NetNs> visible(const std::string& netns) try {
  return NetNs::find(netns);
} catch (const netlink::Error& e) {
  if (e.error() != EACCES) throw;
  return std::nullopt;
}

}  // namespace

void refuse_unknown_backend(const cni::Reader& root) {
  const cni::Reader place = root["ipMasqBackend"];
  const std::string text = place.present() ? place.as_string() : "";
  if (text.empty() || backend_from(text)) return;
  place.refuse(cni::cat("unknown ipmasq backend \"", text, "\""),
               "expected \"nftables\" or \"iptables\"");
}

bool was_masqueraded(const cni::Reader& root) {
  bool masqueraded = false;
  try {
    root.into("ipMasq", masqueraded);
  } catch (const cni::Error&) {
    masqueraded = true;
  }
  return masqueraded;
}

void require_masquerade_rights(const cni::Request& request,
                               std::optional<MasqueradeBackend> backend) {
  if (backend != MasqueradeBackend::kIptables) return;
  if (needs_net_raw(find_restore(netlink::Family::kIpv4))) {
    cni::require_capabilities(request, {netlink::Capability::kNetRaw});
  }
}

void require_masquerade_support(const cni::Request& request,
                                std::optional<MasqueradeBackend> backend) {
  require_masquerade_rights(request, backend);
  const auto why = masquerade_missing(backend);
  if (why) throw cni::Error(cni::Code::kPluginUnavailable, cni::cat("ipMasq: ", *why));
}

void require_removal_rights(const cni::Request& request, bool masqueraded) {
  cni::require_capabilities(request, {netlink::Capability::kNetAdmin});
  if (!request.netns.empty()) {
    cni::require_capabilities(request, {netlink::Capability::kSysAdmin});
  }
  if (masqueraded) require_readable_legacy("remove the masquerading");
}

Masquerade masquerade_of(const cni::Request& request, const cni::Result& result) {
  Masquerade out{request.network, request.container_id, request.ifname, {}, true};
  for (const auto& address : result.ips) out.addresses.push_back(address.cidr);
  return out;
}

void masquerade(std::optional<MasqueradeBackend> backend, const Masquerade& what, cni::Undo& undo) {
  undo.add(RemoveMasquerade{what});
  add_masquerade(backend, what);
}

void repair_masquerade(cni::Repair& repair, std::optional<MasqueradeBackend> backend,
                       const Masquerade& what) {
  repair.part([&] { check_masquerade(what); }, [&] { restore_masquerade(backend, what); });
}

void migrate_masquerade(cni::Repair& repair, std::optional<MasqueradeBackend> backend,
                        const Masquerade& what) {
  const MasqueradeForm form = masquerade_form(backend, repair.to_reference());
  repair.change(masquerade_difference(form, what), [&] { put_masquerade_form(form, what); });
}

Masquerade masquerade_to_remove(const cni::Request& request) {
  const auto result = readable_prev_result(request);
  auto out = masquerade_of(request, result.value_or(cni::Result{}));
  const auto ns = out.addresses.empty() ? visible(request.netns) : std::nullopt;
  if (!ns) return out;
  RouteSocket host;
  RouteSocket pod(*ns);
  const auto inside = pod.find(request.ifname);
  if (!inside || !host_veth_of(host, request, *ns, *inside)) return out;
  for (const auto& address : pod.addresses(*inside)) {
    if (!address.cidr.ip.is_link_local()) out.addresses.push_back(address.cidr);
  }
  out.from_result = false;
  return out;
}

}  // namespace plugins
