#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "netlink/types/ip.h"

/// The fate of packets from and to pods in a packet filter.
namespace tool::doctor {

/// The addresses from first to last.
struct AddressSpan {
  netlink::Ip first, last;
  static AddressSpan of(const netlink::Cidr& range) {
    return {range.ip.masked(range.prefix), range.ip.broadcast(range.prefix)};
  }
  bool overlaps(const AddressSpan& other) const {
    return first <= other.last && other.first <= last;
  }
  /// "10.1.0.0/16", or "10.1.0.1-10.1.0.9".
  std::string str() const;
};

/// A rule. Of each list one has to match, and an empty one matches anything.
struct ForwardRule {
  enum class Effect { kNone, kAccept, kDrop, kReturn };

  std::vector<std::string> in = {}, out = {};  ///< names of links; "veth*": all that begin so
  std::vector<AddressSpan> source = {}, destination = {};
  std::optional<netlink::Family> family = {};
  bool is_narrow = false;          ///< it looks at more than that
  bool has_other_sources = false;  ///< it looks for sources in a way that `source` does not have
  Effect effect = Effect::kNone;
  std::string jump = {};       ///< to a chain
  bool is_goto = false;        ///< does not come back
  std::string insertion = {};  ///< begins a command that inserts a rule before this one
};
using ForwardRules = std::vector<ForwardRule>;

/// A chain that every forwarded packet goes through.
struct ForwardChain {
  std::string name;           ///< "ip filter FORWARD", "iptables-legacy filter FORWARD"
  std::string addition = {};  ///< begins a command that adds a rule at its end
  bool of_iptables = false, of_plugin = false;  ///< of_plugin: of the plugin firewall
  bool v4 = true, v6 = true;
  bool drops = false;  ///< its policy
  ForwardRules rules = {};
  std::map<std::string, ForwardRules> others = {};  ///< chains that it leads to, by name
};

/// Packets of pods in one direction; what is absent is not known.
struct Traffic {
  netlink::Family family = netlink::Family::kIpv4;
  std::string in = {}, out = {};  ///< "veth*": of any such link
  std::optional<netlink::Cidr> source = {}, destination = {};
};

struct Fate {
  enum class Kind { kPolicy, kAccepted, kDropped };
  Kind kind = Kind::kPolicy;
  const ForwardRule* rule = nullptr;  ///< that decides
  bool is_unclear = false;            ///< a rule accepts some of it
};
Fate fate_in(const ForwardChain& chain, const Traffic& traffic);

}  // namespace tool::doctor
