#include <algorithm>
#include <charconv>

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
    const std::string text = text_of_step(step, where, look.scene);
    const bool is_rule = is_drop(step) && step.kind == TraceStep::Kind::kRule;
    return Cause{cat(prefix_of(where), place_of(step.chain),
                     is_drop(step)    ? " drops packets: "
                     : is_queue(step) ? " queues packets: "
                                      : " takes packets away: ",
                     text),
                 whose_at(step.chain, where),
                 command_in(where, opening(step.chain, look.one,
                                           is_rule ? acceptance_of(text) : "accept", where))};
  }
  return std::nullopt;
}

// The last rule that matched in a chain for address translation, which decides. Sources of what is
// for the node itself are replaced in the hook of input, where no link leads out.
const TraceStep* translation_in(const std::vector<PlacedStep>& steps, std::string_view hook) {
  const TraceStep *out = nullptr, *in = nullptr;
  for (const auto& [place, step] : steps) {
    if (place != 0) continue;
    if (step.kind != TraceStep::Kind::kRule || step.verdict.code != netlink::nf::accept().code)
      continue;
    (step.out != 0 ? out : in) = &step;
  }
  return hook == "source" && out != nullptr ? out : in;
}

// "by chain 'c' of table ip t: RULE", and what lets the pods' packets pass by it.
Cause by_rule(const std::string& what, const TraceStep& step, const Case& one, Scene& scene) {
  return {cat(what, " by ", place_of(step.chain), ": ",
              text_of_rule(step.chain, step.rule, nullptr, scene)),
          whose_at(step.chain, nullptr), opening(step.chain, one, "return", nullptr)};
}

Cause by_translation(const std::string& what, std::string_view side, const Case& one,
                     Scene& scene) {
  const TraceStep* const step = translation_in(one.trail.request, side);
  if (step == nullptr) return by_legacy_translation(what, side, one, scene);
  return by_rule(what, *step, one, scene);
}

/// Where the node has led the request to, as its connection or the last rule that saw it says.
std::optional<Ip> arrival_of(const Case& one) {
  if (one.flow) return one.flow->reply.source;
  const auto& seen = one.trail.destination;
  const bool is_known = one.answer.is_delivered() ? one.question.destination.has_value()
                                                  : seen && *seen != one.question.packet.target;
  return is_known ? seen : std::nullopt;
}

// A Service of Kubernetes has its endpoints elsewhere.
bool may_be_elsewhere(const Question& question) {
  return question.about == About::kNameServer || question.about == About::kAsked;
}

// Whether the node sent it on, behind its rules; unknown: yes.
bool has_left(const Case& one) {
  const auto& sights = one.trail.request_sights;
  return sights.empty() || std::ranges::any_of(sights, [](const Sight& each) {
           return each.place == 0 && (each.hook == Hook::kLeaves || each.hook == Hook::kDeviceOut);
         });
}

// On the node that is what hostPorts and Services are made of.
bool translates(const std::string& rule) {
  constexpr std::string_view kWords[] = {"dnat to",  "snat to", "dnat ip", "snat ip",  "masquerade",
                                         "redirect", "DNAT",    "SNAT",    "REDIRECT", "MASQUERADE",
                                         "tproxy",   "TPROXY",  "NETMAP"};
  return std::ranges::any_of(
      kWords, [&](std::string_view word) { return rule.find(word) != std::string::npos; });
}

// A rule of somebody else on the node that has translated the request before this suite could.
std::optional<Cause> translated_by_other(const std::string& what, const Case& one, Scene& scene) {
  for (const auto& [place, step] : one.trail.request) {
    if (place != 0 || step.kind != TraceStep::Kind::kRule || is_of_suite(step.chain)) continue;
    if (!translates(text_of_rule(step.chain, step.rule, nullptr, scene))) continue;
    return by_rule(what, step, one, scene);
  }
  return std::nullopt;
}

// Its config says that the node's address is the source of what leaves the node.
std::optional<Cause> not_masqueraded(const Case& one, Scene& scene) {
  const NodeFacts& facts = scene.facts();
  const Packet& packet = one.question.packet;
  const auto& uplink = facts.uplink(packet.target.family());
  if (!one.subject.is_masqueraded || !one.flow || one.answer.is_delivered()) return std::nullopt;
  if (!uplink || uplink->gateway != packet.target || one.question.sender == std::nullopt ||
      one.flow->reply.destination != one.flow->original.source || !has_left(one)) {
    return std::nullopt;
  }
  const std::string what = cat("the source of packets stays ", one.flow->original.source.str());
  if (auto cause = translated_by_other(what, one, scene)) return cause;
  return Cause{"the node does not masquerade what pods send to other hosts, as \"ipMasq\" says", "",
               "cnitool repair", true};
}

// Whether the rule of a step keeps packets from the connections that NAT is made for.
bool untracks(const std::string& rule) {
  constexpr std::string_view kWords[] = {"notrack", "ct zone set", "CT "};
  return std::ranges::any_of(
      kWords, [&](std::string_view word) { return rule.find(word) != std::string::npos; });
}

// What rules set that leads no packet elsewhere.
constexpr std::string_view kHarmless[] = {"mark",  "nftrace", "priority", "label",
                                          "event", "secmark", "dscp",     "ecn",
                                          "size",  "helper",  "timeout",  "zone"};

// Times to live that are enough for any way.
bool is_long(std::string_view number) {
  constexpr int kEnough = 30;
  int out = 0;
  std::from_chars(number.data(), number.data() + number.size(), out);
  return out >= kEnough;
}

// Whether the rule of a step writes into packets, or into what they are led by: "ip saddr set",
// "meta pkttype set".
bool rewrites(const std::string& rule) {
  constexpr std::string_view kSet = " set ";
  for (auto at = rule.find(kSet); at != std::string::npos; at = rule.find(kSet, at + 1)) {
    const std::string_view before = std::string_view(rule).substr(0, at);
    const std::string_view word = before.substr(before.find_last_of(' ') + 1);
    if (word == "ttl" && is_long(std::string_view(rule).substr(at + kSet.size()))) continue;
    if (std::ranges::find(kHarmless, word) == std::end(kHarmless)) return true;
  }
  constexpr std::string_view kTtl = "TTL set to ";
  const auto ttl = rule.find(kTtl);
  return (ttl != std::string::npos && !is_long(std::string_view(rule).substr(ttl + kTtl.size()))) ||
         rule.find("HL set to ") != std::string::npos;
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
                   whose_at(step.chain, nullptr),
                   steps == &look.one.trail.answer
                       ? opening_for_answers(step.chain, look.one)
                       : opening(step.chain, look.one, "accept", nullptr)};
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
      if (!rewrites(rule) && (where == nullptr || !translates(rule))) continue;
      return Cause{cat(prefix_of(where), place_of(step.chain), " rewrites packets: ", rule),
                   whose_at(step.chain, where),
                   command_in(where, opening(step.chain, look.one, "accept", where))};
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
    const bool may_rewrite = each.ip.is_v4() && step.kind == TraceStep::Kind::kRule;
    if ((!is_drop(step) && !may_rewrite) || !is_own) continue;
    // Places of other probes have other numbers: of those nothing is said here.
    if (each.at.place != 0 && each.at.place != one.sender_place &&
        each.at.place != one.subject_place) {
      continue;
    }
    const Subject* const where = subject_at(one, each.at.place);
    const std::string text = text_of_step(step, where, look.scene);
    if (!is_drop(step) && !rewrites(text)) continue;
    return Cause{cat(prefix_of(where), place_of(step.chain),
                     is_drop(step) ? " drops packets" : " rewrites packets",
                     each.ip.is_v4() ? " of ARP: " : ": ", text),
                 whose_at(step.chain, where),
                 command_in(where, opening_for_neighbours(step.chain, one, where))};
  }
  return std::nullopt;
}

std::optional<Cause> translated(const Case& one, Scene& scene) {
  const NodeFacts& facts = scene.facts();
  const Ip wanted = destination_of(one.question);
  const auto arrival = may_be_elsewhere(one.question) ? std::nullopt : arrival_of(one);
  if (arrival && *arrival != wanted && one.question.destination && facts.has(*arrival)) {
    const std::string what = cat("packets to ", one.question.packet.target.str(),
                                 " stay on the node, and are not led to ", wanted.str());
    if (auto cause = translated_by_other(what, one, scene)) return cause;
    return Cause{"packets to hostPorts stay on the node, and are not led to the pods", "",
                 "cnitool repair"};
  }
  if (arrival && *arrival != wanted && !facts.has(*arrival)) {
    const std::string what = cat("packets to ", one.question.packet.target.str(), " are led to ",
                                 arrival->str(), " and not to ", wanted.str());
    return by_translation(what, "destination", one, scene);
  }
  if (!one.flow) return std::nullopt;
  if (auto cause = not_masqueraded(one, scene)) return cause;
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
