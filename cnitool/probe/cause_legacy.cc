#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"
#include "cnitool/probe/causes.h"
#include "cnitool/probe/legacy.h"
#include "cnitool/probe/rule_words.h"
#include "libcni/common/error.h"
#include "netlink/nf/batch.h"

// Nothing says which packet a rule of iptables-legacy has seen: one is to blame that has counted
// some while the probes were sent, and whose conditions do not exclude this one.
namespace tool::probe {

namespace {

using cni::cat;

constexpr const Subject* kNode = nullptr;

std::size_t number_of(const Case& one, const Subject* where) {
  if (where == kNode) return 0;
  return where == one.sender ? one.sender_place : one.subject_place;
}

std::vector<Ip> addresses_on_way(const Case& one, const NodeFacts& facts) {
  const Packet& packet = one.question.packet;
  std::vector<Ip> out{packet.target, destination_of(one.question)};
  if (one.source) out.push_back(*one.source);
  if (one.trail.destination) out.push_back(*one.trail.destination);
  if (const auto& uplink = facts.uplink(packet.target.family())) out.push_back(uplink->own);
  if (one.flow) out.insert(out.end(), {one.flow->reply.source, one.flow->reply.destination});
  return out;
}

bool takes_address(std::string_view subnet, const std::vector<Ip>& addresses) {
  if (subnet.empty()) return true;
  const auto range = netlink::Cidr::parse(subnet);
  return !range ||
         std::ranges::any_of(addresses, [&](const Ip& ip) { return range->contains(ip); });
}

// An ICMP error about the packet is lost, too.
bool takes_protocol(std::string_view name, const Packet& packet) {
  if (name.empty() || name == "icmp" || name == "ipv6-icmp" || name == "icmpv6") return true;
  if (name == "tcp") return packet.protocol() == IPPROTO_TCP;
  if (name == "udp") return packet.protocol() == IPPROTO_UDP;
  unsigned number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  return is_number && number == packet.protocol();
}

// The ports of those who ask are random.
bool takes_port(std::string_view text, const Question& question) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return true;  // none, or a range
  return port == question.packet.port || port == question.destination_port;
}

// "eth0", and "eth+" for all that begin so.
bool takes_link(std::string_view pattern, const std::vector<std::string>& links) {
  if (pattern.empty()) return true;
  return std::ranges::any_of(links, [&](const std::string& name) {
    return pattern.ends_with('+') ? name.starts_with(pattern.substr(0, pattern.size() - 1))
                                  : name == pattern;
  });
}

std::vector<std::string> links_at(const Case& one, const Subject* where, const NodeFacts& facts) {
  std::vector<std::string> out{"lo"};
  if (where != kNode) {
    out.push_back(where->key.ifname);
    return out;
  }
  for (const Subject* const pod : {one.sender, &one.subject}) {
    if (pod == nullptr) continue;
    for (const cni::Interface& each : pod->result.interfaces) {
      if (each.sandbox.empty()) out.push_back(each.name);
    }
  }
  const auto& uplink = facts.uplink(one.question.packet.target.family());
  const bool is_own =
      facts.has(one.question.packet.target) && one.question.about != About::kOutside;
  if (uplink && !is_own) out.push_back(uplink->link);
  return out;
}

bool may_see(const LegacyRule& rule, const Case& one, const Subject* where,
             const NodeFacts& facts) {
  const auto addresses = addresses_on_way(one, facts);
  const auto links = links_at(one, where, facts);
  return takes_address(rule.word_behind("-s"), addresses) &&
         takes_address(rule.word_behind("-d"), addresses) &&
         takes_protocol(rule.word_behind("-p"), one.question.packet) &&
         takes_port(rule.word_behind("--dport"), one.question) &&
         takes_port(rule.word_behind("--sport"), one.question) &&
         takes_link(rule.word_behind("-i"), links) && takes_link(rule.word_behind("-o"), links);
}

using Deed = bool (LegacyRule::*)() const;

const LegacyRule* rule_at(const Case& one, const Subject* where, const NodeFacts& facts,
                          Deed deed) {
  if (one.legacy == nullptr) return nullptr;
  const auto family = one.question.packet.target.family();
  for (const LegacyRule& rule : one.legacy->counted(number_of(one, where), family)) {
    if ((rule.*deed)() && may_see(rule, one, where, facts)) return &rule;
  }
  return nullptr;
}

const char* program_of(const Case& one) {
  return one.question.packet.target.is_v4() ? "iptables-legacy" : "ip6tables-legacy";
}

Cause cause_by(const LegacyRule& rule, const Case& one, const Subject* where,
               const std::string& what) {
  const auto family = one.question.packet.target.family();
  const Subject& pod = one.sender != nullptr ? *one.sender : one.subject;
  const std::string insert =
      cat(program_of(one), " -t ", rule.table, " -I ", doctor::quoted(rule.chain), " ");
  const std::string subnet = subnet_of(pod, family).str();
  // Address translation has no verdict for the other chains: behind it they are gone through.
  const char* const target = rule.table == "nat" ? "RETURN" : "ACCEPT";
  using netlink::nf::TableFamily;
  return {what,
          whose_at({one.question.packet.target.is_v4() ? TableFamily::kIp : TableFamily::kIp6,
                    rule.table, rule.chain},
                   where),
          command_in(where, cat(insert, "-s ", subnet, " -j ", target, "; ", insert, "-d ", subnet,
                                " -j ", target))};
}

std::optional<Cause> seen_on_leg(const Look& look, Deed deed, const std::string& does) {
  for (const Subject* const where : {look.leg.from, look.leg.to, kNode}) {
    const LegacyRule* const rule = rule_at(look.one, where, look.scene.facts(), deed);
    if (rule == nullptr) continue;
    return cause_by(*rule, look.one, where,
                    cat(prefix_of(where), "a rule of ", program_of(look.one), does, rule->text));
  }
  return std::nullopt;
}

}  // namespace

bool was_dropped_by_rule(const Trail& trail) {
  return std::ranges::any_of(trail.drops, [](const Drop& one) {
    return one.reason == "NETFILTER_DROP" || one.symbol == "nf_hook_slow";
  });
}

// What a rule counts may be packets of others.
std::optional<Cause> dropped_by_legacy(const Look& look) {
  if (may_be_silence(look) && !was_dropped_by_rule(look.one.trail)) return std::nullopt;
  return seen_on_leg(look, &LegacyRule::drops, ", which cannot be followed, has dropped packets: ");
}

std::optional<Cause> untracked_by_legacy(const Look& look) {
  return seen_on_leg(
      look, &LegacyRule::untracks,
      " keeps packets from their connection, so that their addresses are not translated: ");
}

std::optional<Cause> rewritten_by_legacy(const Look& look) {
  return seen_on_leg(look, &LegacyRule::rewrites, " rewrites packets: ");
}

Cause by_legacy_translation(const std::string& what, std::string_view side, const Case& one,
                            const Scene& scene) {
  const Deed deed = side == "source" ? &LegacyRule::hides : &LegacyRule::leads_to;
  const LegacyRule* const rule = rule_at(one, kNode, scene.facts(), deed);
  if (rule == nullptr) return {what, "", "", true};
  return cause_by(*rule, one, kNode,
                  cat(what, " by a rule of ", program_of(one), ": ", rule->text));
}

}  // namespace tool::probe
