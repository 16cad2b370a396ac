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

std::vector<netlink::Cidr> exceptions_from(const cni::Reader& place) {
  std::vector<netlink::Cidr> out;
  for (const cni::Reader& element : place.elements()) {
    const netlink::Cidr one = element.as_cidr();
    if (one != one.network()) {
      element.fail(cni::cat("has host bits, expected a network such as ", one.network().str()));
    }
    for (const netlink::Cidr& other : out) {
      if (!one.contains(other.ip) && !other.contains(one.ip)) continue;
      element.fail(cni::cat(one == other ? "is there twice" : "overlaps with ",
                            one == other ? "" : other.str()));
    }
    out.push_back(one);
  }
  return out;
}

void require_exceptions_fit(const cni::Reader& root, bool is_masqueraded,
                            std::optional<MasqueradeBackend>& backend) {
  const cni::Reader place = root["ipMasqExcept"];
  if (place.elements().empty()) return;
  if (!is_masqueraded) place.fail("requires \"ipMasq\": true and \"ipam\"");
  if (backend == MasqueradeBackend::kIptables) {
    place.fail("requires the ipMasqBackend \"nftables\", not \"iptables\"");
  }
  backend = MasqueradeBackend::kNftables;
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

Masquerade masquerade_of(const cni::Request& request, const cni::Result& result,
                         const std::vector<netlink::Cidr>& except) {
  Masquerade out{request.key(), {}, true, except};
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
  if (repair.to_reference() && !what.except.empty()) {
    throw cni::Error(cni::Code::kInvalidConfig,
                     "ipMasqExcept has no form in the reference plugin: the masquerading stays as "
                     "it is");
  }
  const MasqueradeForm form = masquerade_form(backend, repair.to_reference());
  repair.change(masquerade_difference(form, what), [&] { put_masquerade_form(form, what); });
}

Masquerade masquerade_to_remove(const cni::Request& request) {
  const auto result = readable_prev_result(request);
  auto out = masquerade_of(request, result.value_or(cni::Result{}), {});
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
