#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libcni/plugin/iptables_save.h"
#include "netlink/nf/socket.h"

namespace plugins {
using cni::XtablesVariant;

/// Asked before anything is changed by who is going to read the legacy tables; what is
/// "verb 'object'". \throws cni::Error where there are rules in the table that this process may not
/// read: that takes CAP_NET_RAW.
void require_readable_legacy(std::string_view what, const std::string& table = "nat");
}  // namespace plugins

namespace plugins::xt {

/// A chain of iptables' table nat, or filter.
netlink::nf::ChainId nat(netlink::Family family, std::string chain);
netlink::nf::ChainId filter(netlink::Family family, std::string chain);
/// The family of what they return.
netlink::Family family_of(const netlink::nf::ChainId& chain);

/// One word of iptables-restore's input.
std::string in_quotes(std::string_view text);
/// All words, each after a space.
std::string in_quotes(const cni::Words& words);

/// The ID in a comment that is start, the ID and a quotation mark; empty: it is none of these.
std::string id_in(const std::string& comment, const std::string& start);

/// Reads the tables of one of the two iptables: those of iptables-nft over netlink, and what
/// iptables-save says as it was at the first question. iptables-save of the legacy variant runs
/// only where the kernel's table has the name of a chain of CNI plugins.
class Tables {
 public:
  /// socket may be null: then iptables-nft has nothing.
  Tables(netlink::nf::NfSocket* socket, XtablesVariant variant)
      : socket_(socket), variant_(variant) {}

  XtablesVariant variant() const { return variant_; }
  bool has_chain(const netlink::nf::ChainId& chain);
  using Filter = netlink::nf::NfSocket::Filter;
  /// In order; none where the chain is missing. Of the legacy variant they have addresses, comment
  /// and target alone, and are not filtered.
  std::vector<netlink::nf::Rule> rules(const netlink::nf::ChainId& chain,
                                       const Filter& filter = Filter());
  /// The rules of `from` that lead to the chain `to`, which has the rules `own`. Of iptables-nft
  /// the time it takes does not depend on the length of `from`, if they were added with `own`.
  std::vector<netlink::nf::Rule> jumps(const netlink::nf::ChainId& from,
                                       const netlink::nf::ChainId& to,
                                       const std::vector<netlink::nf::Rule>& own);
  /// The same rules in the words of iptables-save.
  std::vector<cni::Words> saved_rules(const netlink::nf::ChainId& chain);

 private:
  std::vector<netlink::nf::Rule> next_jumps(const netlink::nf::ChainId& from,
                                            const netlink::nf::ChainId& to,
                                            const std::vector<netlink::nf::Rule>& own);
  bool legacy_mentions(const netlink::nf::ChainId& chain, std::string_view text) const;
  const cni::SavedTable& saved(const netlink::nf::ChainId& chain);

  netlink::nf::NfSocket* socket_;
  XtablesVariant variant_;
  std::map<std::pair<netlink::nf::TableFamily, std::string>, cni::SavedTable> saved_;
};

}  // namespace plugins::xt
