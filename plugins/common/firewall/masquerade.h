#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/plugin/collect.h"
#include "libcni/plugin/request.h"
#include "netlink/types/ip.h"

namespace netlink::nf {
class NfSocket;
}

/// Masquerading (ipMasq) of what a pod sends out of its own subnet. What the reference plugins and
/// earlier versions added is removed as well. Everything acts on the network namespace that the
/// thread is in.
namespace plugins {

enum class MasqueradeBackend { kNftables, kIptables };

/// One attachment, and the addresses that are masqueraded for it, each with its subnet's prefix.
struct Masquerade {
  cni::AttachmentKey key;
  std::vector<netlink::Cidr> addresses;
  /// The addresses are those of the result, all of them: not what root in the pod may have changed.
  bool from_result = false;
  /// Destinations that are not masqueraded (`ipMasqExcept`): networks that do not overlap. Only the
  /// nftables backend has them. Removing needs none.
  std::vector<netlink::Cidr> except = {};
};

/// "nftables" or "iptables"; nothing for other text.
std::optional<MasqueradeBackend> backend_from(std::string_view text);

/// The node's backend: nftables if the kernel has NAT for nf_tables, else iptables. No program is
/// run to find out. \throws cni::Error(kPluginUnavailable) if there is neither.
MasqueradeBackend choose_backend();

/// The feature that is missing for the backend, or for any if none is given; empty: all exist.
std::optional<std::string> masquerade_missing(std::optional<MasqueradeBackend> backend);

/// All of it, or none, with what the node has where no backend is given (see choose_backend()). The
/// iptables backend runs iptables-restore once per family; nftables runs nothing.
/// \throws netlink::Error, cni::Error; kTryAgainLater where another tool holds the xtables lock.
void add_masquerade(std::optional<MasqueradeBackend> backend, const Masquerade& masquerade);

/// Adds what is missing of an attachment whose ADD made it.
/// \throws as add_masquerade().
void restore_masquerade(std::optional<MasqueradeBackend> backend, const Masquerade& masquerade);

/// Removes what either backend has for the attachment; with nothing there it is cheap and runs
/// nothing. Without addresses it removes what it finds under the attachment's names; the names of
/// the iptables form are shared by all attachments of a container to one network.
/// \throws cni::Error listing what could not be removed.
void remove_masquerade(const Masquerade& masquerade);
/// Its two halves: what is in nf_tables, where iptables-nft has its rules too, and what
/// iptables-legacy has. \throws netlink::Error, cni::Error.
void remove_nft_masquerade(netlink::nf::NfSocket& socket, const Masquerade& masquerade);
void remove_legacy_masquerade(const Masquerade& masquerade);

/// Removes what attachments have that are not valid.
/// \throws cni::Error listing what could not be removed.
void gc_masquerade(const std::string& network, cni::Collect& collect);

/// \throws cni::Error unless one backend has all that add_masquerade() makes.
void check_masquerade(const Masquerade& masquerade);

/// The forms of masquerading. The reference plugins have the last two of them.
enum class MasqueradeForm {
  kElements,  ///< of table patchbay_masquerade
  kRules,     ///< of table cni_plugins_masquerade
  kChain,     ///< of iptables
};
/// The form that a config names, for these plugins or for those of the reference, whose default is
/// iptables. \throws cni::Error(kPluginUnavailable) if the node has neither backend.
MasqueradeForm masquerade_form(std::optional<MasqueradeBackend> backend, bool of_reference);
/// The first difference from an attachment that has this form alone; empty: there is none.
std::optional<std::string> masquerade_difference(MasqueradeForm form, const Masquerade& m);
/// Adds this form, and then removes the others: all the time one of them masquerades.
/// \throws as add_masquerade().
void put_masquerade_form(MasqueradeForm form, const Masquerade& m);

/// Undo step of add_masquerade().
struct RemoveMasquerade {
  Masquerade masquerade;
  void operator()() const { remove_masquerade(masquerade); }
  std::string describe() const;
};

}  // namespace plugins
