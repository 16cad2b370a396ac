#pragma once

#include <cstddef>
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
  std::vector<std::string> not_in = {}, not_out = {};  ///< none of these
  std::vector<AddressSpan> source = {}, destination = {}, not_source = {}, not_destination = {};
  std::optional<netlink::Family> family = {};
  bool takes_new = true, takes_replies = true;  ///< by the state of the connection
  bool takes_direct = true, takes_dnat = true;  ///< without and with DNAT
  bool is_of_tcp = false;                       ///< it looks at the protocol: TCP
  bool is_of_others = false;                    ///< it looks for what no pod's TCP has
  bool is_part = false;                         ///< it looks at ports, rates or the like
  bool is_narrow = false;                       ///< it looks at what was not read
  bool has_other_sources = false;  ///< it looks for sources in a way that `source` does not have
  Effect effect = Effect::kNone;
  bool rejects = false;        ///< kDrop with an answer
  std::string jump = {};       ///< to a chain
  bool is_goto = false;        ///< does not come back
  std::string chain = {};      ///< that it is in
  std::string insertion = {};  ///< begins a command that inserts a rule before this one
  std::size_t place = 0;       ///< the number that goes on with; 0: none does

  /// "iptables -I FORWARD 3", for the n-th of several rules in that order.
  std::string insertion_of(std::size_t n) const;
};
using ForwardRules = std::vector<ForwardRule>;

/// The kernel's hooks for packets that are forwarded: one of them has the chain.
enum class Hook { kPrerouting, kForward, kPostrouting };

/// A chain that every forwarded packet goes through.
struct ForwardChain {
  std::string name;           ///< "ip filter FORWARD", "iptables-legacy filter FORWARD"
  std::string addition = {};  ///< begins a command that adds a rule at its end
  bool of_iptables = false, of_plugin = false;  ///< of_plugin: of the plugin firewall
  Hook hook = Hook::kForward;
  bool v4 = true, v6 = true;
  bool drops = false;  ///< its policy
  ForwardRules rules = {};
  std::map<std::string, ForwardRules> others = {};  ///< chains that it leads to, by name
};

/// TCP packets of pods in one direction, of any of them; what is empty is not known.
struct Traffic {
  netlink::Family family = netlink::Family::kIpv4;
  std::vector<std::string> in = {}, out = {};  ///< "veth*": of any such link
  std::optional<netlink::Cidr> source = {}, destination = {};
  bool is_from_pods = false, is_reply = false, is_dnat = false;
};

struct Fate {
  enum class Kind { kPolicy, kAccepted, kDropped };
  Kind kind = Kind::kPolicy;
  const ForwardRule* rule = nullptr;  ///< that decides
  /// A rule may accept all of it, or accepts some of it by the pods' links or addresses.
  bool is_unclear = false;
};
Fate fate_in(const ForwardChain& chain, const Traffic& traffic);

}  // namespace tool::doctor
