#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "netlink/nf/socket.h"
#include "plugins/common/iptables_restore.h"
#include "plugins/common/xtables_legacy.h"

namespace plugins::xt {

/// A chain of iptables' table nat, or filter.
netlink::nf::ChainId nat(netlink::Family family, std::string chain);
netlink::nf::ChainId filter(netlink::Family family, std::string chain);
/// The family of what they return.
netlink::Family family_of(const netlink::nf::ChainId& chain);

/// Reads the tables of one of the two iptables, the legacy ones as they were at the first question.
class Tables {
 public:
  /// socket may be null: then iptables-nft has nothing.
  Tables(netlink::nf::NfSocket* socket, XtablesVariant variant)
      : socket_(socket), variant_(variant) {}

  XtablesVariant variant() const { return variant_; }
  bool has_chain(const netlink::nf::ChainId& chain);
  /// In order; none where the chain is missing.
  std::vector<netlink::nf::Rule> rules(const netlink::nf::ChainId& chain);

 private:
  const std::optional<LegacyTable>& legacy(const netlink::nf::ChainId& chain);

  netlink::nf::NfSocket* socket_;
  XtablesVariant variant_;
  std::map<std::pair<netlink::nf::TableFamily, std::string>, std::optional<LegacyTable>> legacy_;
};

}  // namespace plugins::xt
