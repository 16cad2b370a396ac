#pragma once

#include <string>
#include <vector>

#include "cnitool/doctor/forward.h"
#include "cnitool/find_by.h"
#include "netlink/nf/batch.h"

namespace tool::doctor {

/// A rule of iptables that ends chain POSTROUTING of its table nat without NAT: ACCEPT or RETURN.
struct NatExemption {
  std::string chain;   ///< "ip nat POSTROUTING"
  AddressSpan source;  ///< all of the family: any
};

struct Firewall {
  std::vector<netlink::nf::ChainId> chains;  ///< of nf_tables, which iptables-nft uses
  std::vector<ForwardChain> forward;
  std::vector<NatExemption> exemptions;
  bool has_legacy_rules = false;
  bool lacks_legacy_save = false;  ///< the legacy tables are in use, and cannot be read
  bool has_table(const std::string& name) const {
    return find_by(chains, &netlink::nf::ChainId::table, name) != nullptr;
  }
  bool has_chain(const std::string& name) const {
    return find_by(chains, &netlink::nf::ChainId::chain, name) != nullptr;
  }
};

/// Lists it. Runs iptables-save where the legacy tables are in use. \throws netlink::Error,
/// cni::Error.
Firewall read_firewall();

}  // namespace tool::doctor
