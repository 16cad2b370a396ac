#pragma once

#include <optional>
#include <string_view>

#include "libcni/common/undo.h"
#include "libcni/config/common_keys.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"
#include "plugins/common/firewall/masquerade.h"

/// `ipMasq` of interface plugins with a host veth: the keys, and what is masqueraded.
namespace plugins {

/// `ipMasq`, into bool ip_masq.
template <class Conf>
constexpr auto ip_masq_key() {
  return cni::key<&Conf::ip_masq>({.name = "ipMasq",
                                   .description =
                                       "masquerades traffic from the pod to destinations outside "
                                       "its subnet, except multicast"});
}

/// `ipMasqBackend`, into std::optional<MasqueradeBackend> ip_masq_backend; see
/// refuse_unknown_backend().
template <class Conf>
void read_ip_masq_backend(const cni::Reader& place, Conf& conf) {
  conf.ip_masq_backend = backend_from(place.as_string());
}
inline constexpr std::string_view kMasqueradeBackends[] = {"nftables", "iptables"};
template <class Conf>
constexpr auto ip_masq_backend_key() {
  return cni::custom<read_ip_masq_backend<Conf>>(
      {.name = "ipMasqBackend",
       .description = "firewall that masquerades. Default: nftables if the kernel has it with NAT, "
                      "else iptables. DEL removes the rules of both",
       .default_text = "detected",
       .type = cni::Type::kEnum,
       .enumeration = kMasqueradeBackends,
       .or_empty = true});
}

/// `ipMasqExcept`, into std::vector<netlink::Cidr> ip_masq_except; see require_exceptions_fit().
/// \throws cni::Error(kInvalidConfig) for host bits, and for networks that overlap.
std::vector<netlink::Cidr> exceptions_from(const cni::Reader& place);
template <class Conf>
void read_ip_masq_except(const cni::Reader& place, Conf& conf) {
  conf.ip_masq_except = exceptions_from(place);
}
template <class Conf>
constexpr auto ip_masq_except_key() {
  return cni::custom<read_ip_masq_except<Conf>>(
      {.name = "ipMasqExcept",
       .description = "networks of both families to which `ipMasq` does not apply, such as other "
                      "pods' and nodes': kubenet's non-masquerade CIDR. Only with nftables",
       .type = cni::Type::kCidr,
       .lists = 1});
}

/// Exceptions need `ipMasq` and the nftables backend, which is no longer detected then.
/// \throws cni::Error(kInvalidConfig) where the config says otherwise.
void require_exceptions_fit(const cni::Reader& root, bool is_masqueraded,
                            std::optional<MasqueradeBackend>& backend);

/// For a config that uses the key; as in the reference plugins, no other one is refused.
/// \throws cni::Error(kInvalidConfig) where it names no backend.
void refuse_unknown_backend(const cni::Reader& root);

/// DEL and GC: `ipMasq` of a config that ADD may refuse by now. A value that cannot be read may
/// have been true when the pod was added.
bool was_masqueraded(const cni::Reader& root);

/// ADD: the rights that the backend needs beyond those for links, before anything
/// is changed: undoing needs them too. \throws cni::Error.
void require_masquerade_rights(const cni::Request& request,
                               std::optional<MasqueradeBackend> backend);

/// STATUS: the same, and what the backend needs of the node. \throws
/// cni::Error(kPluginUnavailable).
void require_masquerade_support(const cni::Request& request,
                                std::optional<MasqueradeBackend> backend);

/// DEL and GC: the rights to remove links and rules. \throws cni::Error.
void require_removal_rights(const cni::Request& request, bool masqueraded);

/// The addresses that ADD masquerades, and for what destinations it does not.
Masquerade masquerade_of(const cni::Request& request, const cni::Result& result,
                         const std::vector<netlink::Cidr>& except);

/// ADD. \throws as add_masquerade().
void masquerade(std::optional<MasqueradeBackend> backend, const Masquerade& what, cni::Undo& undo);

/// REPAIR.
void repair_masquerade(cni::Repair& repair, std::optional<MasqueradeBackend> backend,
                       const Masquerade& what);

/// MIGRATE. \throws cni::Error(kInvalidConfig) for exceptions, which the reference plugins lack.
void migrate_masquerade(cni::Repair& repair, std::optional<MasqueradeBackend> backend,
                        const Masquerade& what);

/// The addresses that DEL looks for: those of prevResult, else those of the pod's interface; none
/// if both are missing.
Masquerade masquerade_to_remove(const cni::Request& request);

}  // namespace plugins
