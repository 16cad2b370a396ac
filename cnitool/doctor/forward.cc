#include "cnitool/doctor/forward.h"

#include <algorithm>

#include "netlink/types/error.h"

namespace tool::doctor {

namespace {

using netlink::Cidr;
using Effect = ForwardRule::Effect;

enum class Match { kNo, kMaybe, kYes };

bool covers(const std::string& pattern, const std::string& link) {
  if (!pattern.ends_with('*')) return pattern == link;
  return link.starts_with(pattern.substr(0, pattern.size() - 1));
}

Match match(const std::vector<std::string>& patterns, const std::string& link) {
  if (patterns.empty()) return Match::kYes;
  if (link.empty()) return Match::kMaybe;
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& one) { return covers(one, link); })
             ? Match::kYes
             : Match::kNo;
}

Match match(const std::vector<AddressSpan>& spans, const std::optional<Cidr>& range) {
  if (spans.empty()) return Match::kYes;
  if (!range) return Match::kMaybe;
  const auto [first, last] = AddressSpan::of(*range);
  Match out = Match::kNo;
  for (const AddressSpan& one : spans) {
    if (one.first <= first && last <= one.last) return Match::kYes;
    if (one.overlaps({first, last})) out = Match::kMaybe;
  }
  return out;
}

Match match(const ForwardRule& rule, const Traffic& traffic) {
  if (rule.family && rule.family != traffic.family) return Match::kNo;
  return std::min({match(rule.in, traffic.in), match(rule.out, traffic.out),
                   match(rule.source, traffic.source), match(rule.destination, traffic.destination),
                   rule.is_narrow ? Match::kMaybe : Match::kYes});
}

/// One way through a chain and those that it leads to.
class Walk {
 public:
  Walk(const ForwardChain& chain, const Traffic& traffic) : chain_(chain), traffic_(traffic) {}

  Fate run() {
    Fate out = through(chain_.rules, 0);
    out.is_unclear = unclear_;
    return out;
  }

 private:
  // kPolicy: it comes back, or reaches the end.
  Fate through(const ForwardRules& rules, unsigned depth) {
    constexpr unsigned kMaxDepth = 16;  // NFT_JUMP_STACK_SIZE
    for (const ForwardRule& rule : rules) {
      const Match matches = match(rule, traffic_);
      if (matches == Match::kNo) continue;
      const auto target = chain_.others.find(rule.jump);
      if (target != chain_.others.end() && depth < kMaxDepth) {
        const Fate fate = through(target->second, depth + 1);
        if (fate.kind == Fate::Kind::kAccepted && matches == Match::kMaybe) unclear_ = true;
        if (matches == Match::kMaybe) continue;
        if (fate.kind != Fate::Kind::kPolicy || rule.is_goto) return fate;
      } else if (!rule.jump.empty()) {
        unclear_ = true;
      } else if (matches == Match::kMaybe) {
        unclear_ |= rule.effect == Effect::kAccept;
      } else if (rule.effect == Effect::kReturn) {
        return {};
      } else if (rule.effect != Effect::kNone) {
        const bool accepts = rule.effect == Effect::kAccept;
        return {accepts ? Fate::Kind::kAccepted : Fate::Kind::kDropped, &rule};
      }
    }
    return {};
  }

  const ForwardChain& chain_;
  const Traffic& traffic_;
  bool unclear_ = false;
};

}  // namespace

std::string AddressSpan::str() const {
  for (unsigned prefix = 0; prefix <= first.bits(); ++prefix) {
    if (first.masked(prefix) == first && first.broadcast(prefix) == last) {
      return Cidr{first, prefix}.str();
    }
  }
  return netlink::cat(first.str(), "-", last.str());
}

Fate fate_in(const ForwardChain& chain, const Traffic& traffic) {
  return Walk(chain, traffic).run();
}

}  // namespace tool::doctor
