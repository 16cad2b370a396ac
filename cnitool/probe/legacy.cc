#include "cnitool/probe/legacy.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

#include "cnitool/output.h"
#include "libcni/common/error.h"
#include "libcni/plugin/node_tool.h"
#include "netlink/netns.h"
#include "netlink/nf/legacy_table.h"
#include "netlink/types/error.h"

namespace tool::probe {

namespace {

using cni::cat;
using netlink::Family;

template <std::size_t Size>
bool is_among(const std::string_view (&all)[Size], std::string_view one) {
  return std::ranges::find(all, one) != std::end(all);
}

bool has(const cni::Words& words, std::string_view one) {
  return std::ranges::find(words, one) != words.end();
}

// "[3:252]": packets, and bytes.
std::optional<std::uint64_t> packets_in(std::string_view counters) {
  if (!counters.starts_with('[')) return std::nullopt;
  std::uint64_t out = 0;
  const char* const end = counters.data() + counters.size();
  const auto [rest, error] = std::from_chars(counters.data() + 1, end, out);
  if (error != std::errc() || rest == end || *rest != ':') return std::nullopt;
  return out;
}

std::string option_of(std::string_view table) {
  return table == "filter" ? "" : cat("-t ", table, " ");
}

// ":FORWARD DROP [3:252]".
std::optional<LegacyRule> policy_in(std::string_view line, std::string_view table) {
  const cni::Words words = cni::words_of(line.substr(1));
  if (words.size() != 3 || words[1] != "DROP") return std::nullopt;
  const auto packets = packets_in(words[2]);
  if (!packets) return std::nullopt;
  return LegacyRule{.table = std::string(table),
                    .chain = words[0],
                    .text = printable(cat(option_of(table), "-P ", words[0], " DROP")),
                    .words = {"-j", "DROP"},
                    .packets = *packets};
}

// "[3:252] -A FORWARD -s 10.1.2.2/32 -j DROP".
std::optional<LegacyRule> rule_in(std::string_view line, std::string_view table) {
  const auto packets = packets_in(line);
  const auto begin = line.find("] -A ");
  if (!packets || begin == std::string_view::npos) return std::nullopt;
  const std::string_view text = line.substr(begin + 2);
  cni::Words words = cni::words_of(text);
  if (words.size() < 2) return std::nullopt;
  LegacyRule out{.table = std::string(table),
                 .chain = words[1],
                 .text = printable(cat(option_of(table), text)),
                 .packets = *packets};
  out.words.assign(words.begin() + 2, words.end());
  return out;
}

bool is_in_use(const netlink::NetNs& ns, Family family) {
  const netlink::NetNs::Entered there(ns);
  return !netlink::nf::legacy_tables(family).empty();
}

const char* save_of(Family family) {
  return family == Family::kIpv4 ? "iptables-legacy-save" : "ip6tables-legacy-save";
}

}  // namespace

std::string_view LegacyRule::word_behind(std::string_view option) const {
  const auto found = std::ranges::find(words, option);
  if (found == words.end() || std::next(found) == words.end()) return {};
  const bool is_negated = found != words.begin() && *std::prev(found) == "!";
  return is_negated ? std::string_view() : std::string_view(*std::next(found));
}

bool LegacyRule::drops() const {
  constexpr std::string_view kTargets[] = {"DROP", "REJECT", "NFQUEUE", "QUEUE", "TARPIT"};
  return is_among(kTargets, word_behind("-j"));
}

bool LegacyRule::untracks() const {
  constexpr std::string_view kOptions[] = {"--notrack", "--zone", "--zone-orig", "--zone-reply"};
  return word_behind("-j") == "NOTRACK" ||
         (word_behind("-j") == "CT" &&
          std::ranges::any_of(kOptions, [&](auto one) { return has(words, one); }));
}

bool LegacyRule::rewrites() const {
  constexpr int kEnough = 30;  // for any way
  const std::string_view set = word_behind("--ttl-set");
  int ttl = 0;
  std::from_chars(set.data(), set.data() + set.size(), ttl);
  const bool is_long = ttl >= kEnough || has(words, "--ttl-inc");
  return (word_behind("-j") == "TTL" && !is_long) || word_behind("-j") == "HL";
}

bool LegacyRule::leads_to() const {
  constexpr std::string_view kTargets[] = {"DNAT", "REDIRECT", "NETMAP", "TPROXY"};
  return is_among(kTargets, word_behind("-j"));
}

bool LegacyRule::hides() const {
  constexpr std::string_view kTargets[] = {"SNAT", "MASQUERADE", "NETMAP"};
  return is_among(kTargets, word_behind("-j"));
}

std::vector<LegacyRule> legacy_rules_in(std::string_view listing) {
  std::vector<LegacyRule> out;
  std::string_view table;
  while (!listing.empty()) {
    const std::string_view line = listing.substr(0, listing.find('\n'));
    listing.remove_prefix(std::min(listing.size(), line.size() + 1));
    if (line.starts_with('*')) table = line.substr(1);
    auto rule = line.starts_with(':') ? policy_in(line, table) : rule_in(line, table);
    if (rule) out.push_back(*std::move(rule));
  }
  return out;
}

std::vector<LegacyRule> grown(const std::vector<LegacyRule>& before,
                              const std::vector<LegacyRule>& after) {
  // Two rules of a chain may be equal: the order tells them apart.
  std::map<std::pair<std::string, std::string>, std::vector<std::uint64_t>> known;
  for (auto one = before.rbegin(); one != before.rend(); ++one) {
    known[{one->table, one->text}].push_back(one->packets);
  }
  std::vector<LegacyRule> out;
  for (const LegacyRule& one : after) {
    const auto found = known.find({one.table, one.text});
    std::uint64_t counted = 0;
    if (found != known.end() && !found->second.empty()) {
      counted = found->second.back();
      found->second.pop_back();
    }
    if (one.packets > counted) out.push_back(one);
  }
  return out;
}

LegacyCounts::LegacyCounts(const std::vector<Follower::Post>& posts) : posts_(posts) {
  for (std::size_t place = 0; place < posts.size(); ++place) {
    for (const Family family : netlink::kFamilies) {
      if (!is_in_use(posts[place].ns, family)) continue;
      const Key key(place, family);
      rules_[key] = read(key);
    }
  }
}

void LegacyCounts::add_limit(const std::string& text) {
  if (std::ranges::find(limits_, text) == limits_.end()) limits_.push_back(text);
}

std::vector<LegacyRule> LegacyCounts::read(const Key& key) {
  const netlink::NetNs::Entered there(posts_[key.first].ns);
  const char* const save = save_of(key.second);
  const std::string what = cat("rules of ", key.second == Family::kIpv4 ? "ip" : "ip6",
                               "tables-legacy (", netlink::nf::legacy_tables(key.second), ")");
  const auto file = cni::find_iptables(key.second, cni::XtablesVariant::kLegacy, "save");
  if (!file) {
    add_limit(cat(what, " are neither traced nor read: ", save, " is not installed"));
    return {};
  }
  try {
    const cni::Outcome outcome = cni::run_node_tool(*file, {"-c"}, "");
    if (!outcome.ok()) throw cni::tool_error(cni::Code::kInternal, *file, outcome);
    add_limit(cat(what, " are not traced: ", save, " -c counts their packets"));
    return legacy_rules_in(outcome.out);
  } catch (const cni::Error& e) {
    add_limit(cat(what, " are neither traced nor read: ", e.what()));
    return {};
  }
}

void LegacyCounts::compare() {
  for (auto& [key, rules] : rules_) {
    try {
      rules = grown(rules, read(key));
    } catch (const netlink::Error&) {  // a pod that has ended
      rules.clear();
    }
  }
}

const std::vector<LegacyRule>& LegacyCounts::counted(std::size_t place, Family family) const {
  static const std::vector<LegacyRule> kNone;
  const auto found = rules_.find({place, family});
  return found == rules_.end() ? kNone : found->second;
}

}  // namespace tool::probe
