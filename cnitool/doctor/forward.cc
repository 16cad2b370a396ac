#include "cnitool/doctor/forward.h"

#include <algorithm>

#include "netlink/types/error.h"

namespace tool::doctor {

namespace {

using netlink::Cidr;
using Effect = ForwardRule::Effect;
using Links = std::vector<std::string>;
using Spans = std::vector<AddressSpan>;

enum class Match { kNo, kMaybe, kYes };

bool covers(const std::string& pattern, const std::string& link) {
  if (!pattern.ends_with('*')) return pattern == link;
  return link.starts_with(pattern.substr(0, pattern.size() - 1));
}

Match match(const Links& patterns, const Links& links) {
  if (patterns.empty()) return Match::kYes;
  if (links.empty()) return Match::kMaybe;
  const auto count = std::ranges::count_if(links, [&](const std::string& link) {
    return std::ranges::any_of(patterns, [&](const auto& one) { return covers(one, link); });
  });
  if (count == 0) return Match::kNo;
  return static_cast<std::size_t>(count) == links.size() ? Match::kYes : Match::kMaybe;
}

Match match(const Spans& spans, const std::optional<Cidr>& range) {
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

// Matches a list of which none may match; an empty one has nothing to say.
template <class List, class Thing>
Match match_none(const List& list, const Thing& thing) {
  if (list.empty()) return Match::kYes;
  const Match found = match(list, thing);
  return found == Match::kMaybe ? found : found == Match::kYes ? Match::kNo : Match::kYes;
}

bool is_of_other_state(const ForwardRule& rule, const Traffic& traffic) {
  return !(traffic.is_reply ? rule.takes_replies : rule.takes_new) ||
         !(traffic.is_dnat ? rule.takes_dnat : rule.takes_direct);
}

// Whether it was written with the pods in mind: then what it accepts of their packets may be all
// that they are to send.
bool names_pods(const ForwardRule& rule, const Traffic& traffic) {
  return traffic.is_from_pods ? !rule.in.empty() || !rule.source.empty()
                              : !rule.out.empty() || !rule.destination.empty();
}

struct Hit {
  Match match = Match::kNo;
  bool is_unclear = false;  ///< kMaybe: all of the packets, or some that somebody chose
};

Hit hit_by(const ForwardRule& rule, const Traffic& traffic) {
  if (rule.family && rule.family != traffic.family) return {};
  if (rule.is_of_others || is_of_other_state(rule, traffic)) return {};
  const Match links =
      std::min({match(rule.in, traffic.in), match(rule.out, traffic.out),
                match_none(rule.not_in, traffic.in), match_none(rule.not_out, traffic.out)});
  const Match addresses =
      std::min({match(rule.source, traffic.source), match(rule.destination, traffic.destination),
                match_none(rule.not_source, traffic.source),
                match_none(rule.not_destination, traffic.destination)});
  const bool is_part = rule.is_part || (rule.is_of_tcp && rule.effect == Effect::kAccept);
  const Match rest = is_part || rule.is_narrow ? Match::kMaybe : Match::kYes;
  return {std::min({links, addresses, rest}),
          rule.is_narrow || links == Match::kMaybe || names_pods(rule, traffic)};
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
      const Hit hit = hit_by(rule, traffic_);
      if (hit.match == Match::kNo) continue;
      const bool is_sure = hit.match == Match::kYes;
      const auto target = chain_.others.find(rule.jump);
      if (target != chain_.others.end() && depth < kMaxDepth) {
        const bool before = unclear_;
        const Fate fate = through(target->second, depth + 1);
        if (!is_sure) {
          unclear_ = before || (hit.is_unclear && (unclear_ || fate.kind == Fate::Kind::kAccepted));
          continue;
        }
        if (fate.kind != Fate::Kind::kPolicy || rule.is_goto) return fate;
      } else if (!rule.jump.empty()) {
        unclear_ |= is_sure || hit.is_unclear;
      } else if (!is_sure) {
        const bool spares = rule.effect == Effect::kAccept || rule.effect == Effect::kReturn;
        unclear_ |= spares && hit.is_unclear;
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

std::string ForwardRule::insertion_of(std::size_t n) const {
  return place == 0 ? insertion : netlink::cat(insertion, " ", place + n);
}

Fate fate_in(const ForwardChain& chain, const Traffic& traffic) {
  return Walk(chain, traffic).run();
}

}  // namespace tool::doctor
