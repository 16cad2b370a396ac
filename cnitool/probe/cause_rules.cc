#include <algorithm>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"
#include "cnitool/probe/causes.h"
#include "cnitool/probe/rule_words.h"
#include "libcni/common/error.h"
#include "netlink/nf/match.h"

// Rules of packet filters, of the node and of pods, and what they translate.
namespace tool::probe {

namespace {

using cni::cat;
using netlink::nf::TraceStep;

constexpr const Subject* kNode = nullptr;

const Subject* subject_at(const Case& one, std::size_t place) {
  if (place == 0) return nullptr;
  return place == one.sender_place ? one.sender : &one.subject;
}

bool is_gateway_of(const Case& one, const Ip& ip) {
  const auto has = [&](const Subject* pod) {
    return pod != nullptr && std::ranges::any_of(pod->result.ips, [&](const cni::Address& each) {
             return each.gateway == ip;
           });
  };
  return has(&one.subject) || has(one.sender);
}

bool is_drop(const TraceStep& step) { return step.verdict.code == netlink::nf::drop().code; }

// Of a queue that nobody reads, or of one whose reader drops them.
bool is_queue(const TraceStep& step) {
  constexpr std::int32_t kVerdictMask = 0xff, kQueue = 3;  // NF_VERDICT_MASK, NF_QUEUE
  return step.kind == TraceStep::Kind::kRule && step.verdict.code > 0 &&
         (step.verdict.code & kVerdictMask) == kQueue;
}

std::string text_of_step(const TraceStep& step, const Subject* where, Scene& scene) {
  return step.kind == TraceStep::Kind::kPolicy ? "policy drop"
                                               : text_of_rule(step.chain, step.rule, where, scene);
}

// It goes on elsewhere, as by "fwd" and "dup".
bool is_stolen(const TraceStep& step) {
  constexpr std::int32_t kStolen = 2;  // NF_STOLEN
  return step.kind == TraceStep::Kind::kRule && step.verdict.code == kStolen;
}

// A packet that goes on behind such a step was not dropped by it.
std::optional<Cause> drop_in(const std::vector<PlacedStep>& steps, const Look& look) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const TraceStep& step = steps[i].step;
    const bool is_last = i + 1 == steps.size();
    const bool is_taken = is_last && (is_queue(step) || is_stolen(step));
    if (!is_drop(step) && !is_taken) continue;
    const Subject* const where = subject_at(look.one, steps[i].place);
    return Cause{cat(prefix_of(where), place_of(step.chain),
                     is_drop(step)    ? " drops packets: "
                     : is_queue(step) ? " queues packets: "
                                      : " takes packets away: ",
                     text_of_step(step, where, look.scene)),
                 whose_at(step.chain, where),
                 command_in(where, opening(step.chain, look.one, "accept"))};
  }
  return std::nullopt;
}

// The last rule that matched in a chain for address translation, which decides.
const TraceStep* translation_in(const std::vector<PlacedStep>& steps, std::string_view hook) {
  const TraceStep* out = nullptr;
  for (const auto& [place, step] : steps) {
    if (place != 0) continue;
    const bool is_output = hook == "source" ? step.out != 0 : step.out == 0;
    if (step.kind != TraceStep::Kind::kRule || step.verdict.code != netlink::nf::accept().code)
      continue;
    if (is_output) out = &step;
  }
  return out;
}

// "by chain 'c' of table ip t: RULE", and what lets the pods' packets pass by it.
Cause by_translation(const std::string& what, std::string_view side, const Case& one,
                     Scene& scene) {
  const TraceStep* const step = translation_in(one.trail.request, side);
  if (step == nullptr) return {what, "", ""};
  return {cat(what, " by ", place_of(step->chain), ": ",
              text_of_rule(step->chain, step->rule, nullptr, scene)),
          whose_at(step->chain, nullptr), opening(step->chain, one, "return")};
}

/// Where the node has led the request to, as its connection or the last rule that saw it says.
std::optional<Ip> arrival_of(const Case& one) {
  if (one.flow) return one.flow->reply.source;
  return one.question.destination && one.answer.is_delivered() ? one.trail.destination
                                                               : std::nullopt;
}

// A Service of Kubernetes has its endpoints elsewhere.
bool may_be_elsewhere(const Question& question) {
  return question.about == About::kNameServer || question.about == About::kAsked;
}

// Its config says that the node's address is the source of what leaves the node.
std::optional<Cause> not_masqueraded(const Case& one, const NodeFacts& facts) {
  const Packet& packet = one.question.packet;
  const auto& uplink = facts.uplink(packet.target.family());
  if (!one.subject.is_masqueraded || !one.flow || one.answer.is_delivered()) return std::nullopt;
  if (!uplink || uplink->gateway != packet.target || one.question.sender == std::nullopt ||
      one.flow->reply.destination != one.flow->original.source) {
    return std::nullopt;
  }
  return Cause{"the node does not masquerade what pods send to other hosts, as \"ipMasq\" says", "",
               "cnitool repair"};
}

// Whether the rule of a step keeps packets from the connections that NAT is made for.
bool untracks(const std::string& rule) {
  constexpr std::string_view kWords[] = {"notrack", "ct zone set", "CT "};
  return std::ranges::any_of(
      kWords, [&](std::string_view word) { return rule.find(word) != std::string::npos; });
}

// Whether the rule of a step writes into headers by which packets are led.
bool rewrites(const std::string& rule) {
  constexpr std::string_view kWords[] = {"saddr set ",  "daddr set ", "sport set ",
                                         "dport set ",  "ttl set ",   "hoplimit set ",
                                         "TTL set to ", "HL set to "};
  return std::ranges::any_of(
      kWords, [&](std::string_view word) { return rule.find(word) != std::string::npos; });
}

}  // namespace

std::optional<Cause> dropped_by_rule(const Look& look) {
  if (auto cause = drop_in(look.one.trail.request, look)) return cause;
  return drop_in(look.one.trail.answer, look);
}

std::optional<Cause> untracked_by_rule(const Look& look) {
  for (const auto* const steps : {&look.one.trail.request, &look.one.trail.answer}) {
    for (const auto& [place, step] : *steps) {
      if (place != 0 || step.kind != TraceStep::Kind::kRule) continue;
      const std::string rule = text_of_rule(step.chain, step.rule, nullptr, look.scene);
      if (!untracks(rule)) continue;
      return Cause{cat(place_of(step.chain), " keeps packets from their connection, so that their ",
                       "addresses are not translated: ", rule),
                   whose_at(step.chain, nullptr), opening(step.chain, look.one, "accept")};
    }
  }
  return std::nullopt;
}

std::optional<Cause> rewritten_by_rule(const Look& look) {
  for (const auto* const steps : {&look.one.trail.request, &look.one.trail.answer}) {
    for (const auto& [place, step] : *steps) {
      if (step.kind != TraceStep::Kind::kRule) continue;
      const Subject* const where = subject_at(look.one, place);
      const std::string rule = text_of_rule(step.chain, step.rule, where, look.scene);
      if (!rewrites(rule)) continue;
      return Cause{cat(prefix_of(where), place_of(step.chain), " rewrites packets: ", rule),
                   whose_at(step.chain, where),
                   command_in(where, opening(step.chain, look.one, "accept"))};
    }
  }
  return std::nullopt;
}

std::optional<Cause> unresolved_by_rule(const Look& look) {
  const Case& one = look.one;
  if (one.resolutions == nullptr) return std::nullopt;
  const auto& facts = look.scene.facts();
  for (const Resolution& each : *one.resolutions) {
    const TraceStep& step = each.at.step;
    const bool is_own = each.ip == look.leg.source || each.ip == look.leg.target ||
                        facts.has(each.ip) || is_gateway_of(one, each.ip);
    if (!is_drop(step) || !is_own) continue;
    // Places of other probes have other numbers: of those nothing is said here.
    if (each.at.place != 0 && each.at.place != one.sender_place &&
        each.at.place != one.subject_place) {
      continue;
    }
    const Subject* const where = subject_at(one, each.at.place);
    return Cause{cat(prefix_of(where), place_of(step.chain), " drops packets",
                     each.ip.is_v4() ? " of ARP: " : ": ", text_of_step(step, where, look.scene)),
                 whose_at(step.chain, where),
                 command_in(where, opening_for_neighbours(step.chain, one))};
  }
  return std::nullopt;
}

std::optional<Cause> dropped_by_legacy(const Look& look) {
  const auto family = look.leg.target.family();
  for (const Subject* const where : {look.leg.from, look.leg.to, kNode}) {
    const auto found = look.scene.legacy_drop(where, family);
    if (!found) continue;
    const char* const program = look.leg.target.is_v4() ? "iptables-legacy" : "ip6tables-legacy";
    const Subject& pod = look.one.sender != nullptr ? *look.one.sender : look.one.subject;
    const std::string insert =
        cat(program, " -t ", found->table, " -I ", doctor::quoted(found->chain), " ");
    const std::string subnet = subnet_of(pod, family).str();
    return Cause{cat(prefix_of(where), "a rule of ", program, ", which cannot be followed, has ",
                     "dropped packets: ", found->text),
                 kSomebodys,
                 command_in(where, cat(insert, "-s ", subnet, " -j ACCEPT; ", insert, "-d ", subnet,
                                       " -j ACCEPT"))};
  }
  return std::nullopt;
}

std::optional<Cause> translated(const Case& one, Scene& scene) {
  const NodeFacts& facts = scene.facts();
  const Ip wanted = destination_of(one.question);
  const auto arrival = may_be_elsewhere(one.question) ? std::nullopt : arrival_of(one);
  if (arrival && *arrival != wanted && one.question.destination && facts.has(*arrival)) {
    return Cause{"packets to hostPorts stay on the node, and are not led to the pods", "",
                 "cnitool repair"};
  }
  if (arrival && *arrival != wanted && !facts.has(*arrival)) {
    const std::string what = cat("packets to ", one.question.packet.target.str(), " are led to ",
                                 arrival->str(), " and not to ", wanted.str());
    return by_translation(what, "destination", one, scene);
  }
  if (!one.flow) return std::nullopt;
  if (auto cause = not_masqueraded(one, facts)) return cause;
  const Ip& source = one.flow->reply.destination;
  if (one.flow->original.source == source || facts.has(source)) return std::nullopt;
  return by_translation(cat("the source of packets is replaced by ", source.str(),
                            ", which is no address of the node,"),
                        "source", one, scene);
}

bool went_astray(const Case& one, const NodeFacts& facts) {
  Scene scene(facts);
  return one.flow.has_value() && translated(one, scene).has_value();
}

}  // namespace tool::probe
