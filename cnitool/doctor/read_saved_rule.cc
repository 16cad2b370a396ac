#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "cnitool/doctor/read_rule.h"
#include "libcni/common/split.h"
#include "netlink/nf/match.h"

namespace tool::doctor {

namespace {

using netlink::Cidr;
using Effect = ForwardRule::Effect;

/// An option of a rule, as iptables-save prints it.
struct Option {
  std::string name;
  std::vector<std::string> values;
  bool is_inverted = false;
};

// "! -i docker0 -m tcp --tcp-flags SYN,ACK SYN -j ACCEPT": the words that begin no option are
// values, and what follows a target is the target's.
std::vector<Option> options_of(const cni::Words& words) {
  std::vector<Option> out;
  bool is_inverted = false;
  for (const std::string& word : words) {
    const bool ends = !out.empty() && (out.back().name == "-j" || out.back().name == "-g");
    if (ends && !out.back().values.empty()) break;
    if (word == "!") {
      is_inverted = true;
    } else if (word.starts_with('-') && word.size() > 1) {
      out.push_back({word, {}, is_inverted});
      is_inverted = false;
    } else if (!out.empty()) {
      out.back().values.push_back(word);
    }
  }
  return out;
}

bool is_part_option(const std::string& option) {
  constexpr const char* kParts[] = {"port",        "sport",     "dport", "icmp-type",
                                    "icmpv6-type", "limit",     "tcp-",  "length",
                                    "hashlimit",   "connlimit", "quota", "time"};
  return std::ranges::any_of(
      kParts, [&](const char* one) { return option.find(one) != std::string::npos; });
}

void read_states(ForwardRule& rule, const std::string& value, bool is_inverted) {
  static const std::map<std::string_view, std::uint32_t> kStates{
      {"NEW", netlink::nf::kStateNew}, {"ESTABLISHED", netlink::nf::kStateEstablished}};
  if (value == "DNAT") return take_dnat(rule, is_inverted);
  std::uint32_t states = 0;
  for (const auto state : cni::split(value, ",")) {
    const auto it = kStates.find(state);
    if (it != kStates.end()) states |= it->second;
    rule.is_narrow |= state == "DNAT" || state == "SNAT";
  }
  take_states(rule, states, is_inverted);
}

void read_protocol(ForwardRule& rule, const std::string& value, bool is_inverted) {
  take_protocol(rule, value == "tcp" || value == "6" ? IPPROTO_TCP : IPPROTO_UDP, is_inverted);
}

// "0x4000/0x4000"
void read_mark(ForwardRule& rule, const std::string& value, bool is_inverted) {
  std::uint32_t mark = 0;
  constexpr int kHex = 16;
  const std::string digits = value.substr(0, value.find('/'));
  const std::size_t begin = digits.starts_with("0x") ? 2 : 0;
  std::from_chars(digits.data() + begin, digits.data() + digits.size(), mark, kHex);
  take_mark(rule, mark, is_inverted);
}

void read_target(ForwardRule& rule, const std::string& value, const cni::SavedTable& filter) {
  if (filter.chains.contains(value)) rule.jump = value;
  if (value == "ACCEPT" || value == "NFQUEUE") rule.effect = Effect::kAccept;
  if (value == "DROP" || value == "REJECT") rule.effect = Effect::kDrop;
  if (value == "RETURN") rule.effect = Effect::kReturn;
  rule.rejects = value == "REJECT";
  rule.is_narrow |= value == "NFQUEUE";  // a program of the node decides
}

// "cni+"
std::string saved_link(const std::string& value) {
  return value.ends_with('+') ? value.substr(0, value.size() - 1) + '*' : value;
}

bool read_place(ForwardRule& rule, const Option& option) {
  const auto& [name, values, is_inverted] = option;
  if (values.size() != 1) return false;
  if (name == "-i" || name == "-o") {
    const bool in = name == "-i";
    auto& links = is_inverted ? (in ? rule.not_in : rule.not_out) : (in ? rule.in : rule.out);
    links.push_back(saved_link(values[0]));
    return true;
  }
  const auto range = Cidr::parse(values[0]);
  if ((name != "-s" && name != "-d") || !range) return false;
  const bool source = name == "-s";
  auto& spans = is_inverted ? (source ? rule.not_source : rule.not_destination)
                            : (source ? rule.source : rule.destination);
  spans.push_back(AddressSpan::of(*range));
  rule.has_other_sources |= source && is_inverted;
  return true;
}

}  // namespace

ForwardRule read_saved_rule(const cni::SavedRule& saved, const cni::SavedTable& filter) {
  ForwardRule out;
  out.chain = saved.chain;
  for (const Option& option : options_of(saved.words)) {
    const auto& [name, values, is_inverted] = option;
    const std::string value = values.empty() ? "" : values.front();
    if (name == "-m" || name == "--comment" || read_place(out, option)) continue;
    if (name == "-j" || name == "-g") {
      read_target(out, value, filter);
      out.is_goto = name == "-g";
    } else if (name == "-p") {
      read_protocol(out, value, is_inverted);
    } else if (name == "--ctstate" || name == "--state") {
      read_states(out, value, is_inverted);
    } else if (name == "--mark") {
      read_mark(out, value, is_inverted);
    } else if (is_part_option(name)) {
      out.is_part = true;
    } else {
      out.is_narrow = true;
    }
  }
  return out;
}

}  // namespace tool::doctor
