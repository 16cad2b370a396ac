#include "cnitool/doctor/firewall.h"

#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "libcni/plugin/iptables_save.h"
#include "netlink/nf/legacy_table.h"
#include "netlink/nf/match.h"
#include "netlink/nf/socket.h"
#include "netlink/types/error.h"
#include "plugins/names/tables.h"

namespace tool::doctor {

namespace {

namespace nf = netlink::nf;
using netlink::cat;
using netlink::Cidr;
using netlink::Family;

constexpr nf::TableFamily kTableFamilies[] = {nf::TableFamily::kInet, nf::TableFamily::kIp,
                                              nf::TableFamily::kIp6};
// linux/netfilter.h and linux/netfilter/nf_tables.h
constexpr std::uint32_t kForwardHook = 2, kDrop = 0;
constexpr std::uint32_t kIncoming = 4, kOutgoing = 5, kIncomingName = 6, kOutgoingName = 7,
                        kProtocol = 15;
constexpr std::int32_t kDropped = 0, kAccept = 1, kJump = -3, kGoto = -4, kReturn = -5;
constexpr std::uint32_t kNetworkHeader = 1;
constexpr std::uint32_t kEqual = 0;

// "veth*" for a comparison with the beginning of a name.
std::string link_in(const nf::Bytes& bytes) {
  const std::string text(bytes.begin(), bytes.end());
  const auto end = text.find('\0');
  return end == std::string::npos && text.size() < IFNAMSIZ ? text + '*' : text.substr(0, end);
}

std::string link_of_index(const nf::Bytes& bytes) {
  unsigned index = 0;
  char name[IFNAMSIZ] = {};
  if (bytes.size() != sizeof index) return {};
  std::memcpy(&index, bytes.data(), sizeof index);
  return ::if_indextoname(index, name) == nullptr ? "" : name;
}

bool has_catch_all(nf::NfSocket& socket, const nf::SetId& set) {
  bool out = false;
  const auto look = [&](const netlink::Attributes& found) { out |= nf::lists_catch_all(found); };
  socket.dump(nf::encode_query(set, std::nullopt), cat("list elements '", set.str(), "'"), look);
  return out;
}

/// Reads the expressions of a rule. Whatever is not about links and addresses makes it narrow.
class RuleReader {
 public:
  RuleReader(nf::NfSocket& socket, const nf::Rule& rule, std::string insertion)
      : socket_(socket), rule_(rule), out_{.insertion = std::move(insertion)} {
    if (rule.chain.family == nf::TableFamily::kIp) out_.family = Family::kIpv4;
    if (rule.chain.family == nf::TableFamily::kIp6) out_.family = Family::kIpv6;
  }

  ForwardRule run() {
    for (const auto& expr : rule_.exprs) {
      std::visit([this](const auto& one) { read(one); }, expr);
    }
    return std::move(out_);
  }

 private:
  enum class Loaded { kNothing, kLink, kIndex, kAddress, kFamily, kOther };

  void narrow() {
    out_.is_narrow = true;
    out_.has_other_sources |= loaded_ == Loaded::kAddress && addresses_ == &out_.source;
  }
  void read(const nf::Meta& meta) {
    const bool in = meta.key == kIncoming || meta.key == kIncomingName;
    const bool out = meta.key == kOutgoing || meta.key == kOutgoingName;
    links_ = in ? &out_.in : &out_.out;
    loaded_ = meta.key == kIncomingName || meta.key == kOutgoingName ? Loaded::kLink
              : in || out                                            ? Loaded::kIndex
              : meta.key == kProtocol                                ? Loaded::kFamily
                                                                     : Loaded::kOther;
  }
  void read(const nf::Payload& load) {
    const bool v4 = out_.family == Family::kIpv4;
    const std::uint32_t source = v4 ? 12 : 8, destination = v4 ? 16 : 24;
    const bool is_address = out_.family && load.base == kNetworkHeader &&
                            (load.offset == source || load.offset == destination);
    addresses_ = load.offset == source ? &out_.source : &out_.destination;
    loaded_ = is_address ? Loaded::kAddress : Loaded::kOther;
    prefix_ = load.len * 8;
  }
  void read(const nf::Bitwise& mask) {
    prefix_ = 0;
    for (const std::uint8_t byte : mask.mask) prefix_ += static_cast<unsigned>(std::popcount(byte));
  }
  void read(const nf::Cmp& cmp) {
    if (cmp.op != kEqual) {
      narrow();
    } else if (loaded_ == Loaded::kFamily && !cmp.data.empty()) {
      out_.family = cmp.data[0] == AF_INET ? Family::kIpv4 : Family::kIpv6;
    } else {
      add(cmp.data);
    }
  }
  void read(const nf::Lookup& lookup) {
    const bool is_link = loaded_ == Loaded::kLink || loaded_ == Loaded::kIndex;
    const bool is_whole = out_.family && prefix_ == netlink::Ip::any(*out_.family).bits();
    if (lookup.inverted || lookup.dreg || !(is_link || (loaded_ == Loaded::kAddress && is_whole))) {
      return narrow();
    }
    const nf::SetId set{rule_.chain.family, rule_.chain.table, lookup.set};
    auto elements = socket_.all_elements(set);
    if (has_catch_all(socket_, set)) {
      if (is_link) return links_->push_back("*");
      return addresses_->push_back(AddressSpan::of({netlink::Ip::any(*out_.family), 0}));
    }
    if (is_link) {
      for (const nf::Element& one : elements) add(one.key);
    } else {
      add_spans(elements);
    }
    if (is_link ? links_->empty() : addresses_->empty()) narrow();
  }
  // An interval is an element where it begins and one behind its end, which may be the begin of
  // another; that up to the last address has no end.
  void add_spans(std::vector<nf::Element>& elements) {
    const bool has_ends = std::any_of(elements.begin(), elements.end(),
                                      [](const nf::Element& one) { return one.ends_interval; });
    std::sort(elements.begin(), elements.end(), [](const nf::Element& a, const nf::Element& b) {
      return a.key == b.key ? a.ends_interval && !b.ends_interval : a.key < b.key;
    });
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const nf::Bytes& key = elements[i].key;
      if (elements[i].ends_interval) continue;
      if (key.size() != netlink::Ip::any(*out_.family).size()) {  // of several parts
        narrow();
        continue;
      }
      AddressSpan span{netlink::Ip::from_bytes(key.data(), key.size()), {}};
      span.last = span.first;
      if (has_ends && i + 1 < elements.size()) {
        const nf::Bytes& end = elements[i + 1].key;
        span.last = netlink::Ip::from_bytes(end.data(), end.size()).prev().value_or(span.first);
      } else if (has_ends || span.first.is_unspecified()) {  // 0.0.0.0/0 has no other element
        span.last = span.first.broadcast(0);
      }
      addresses_->push_back(span);
    }
  }
  void read(const nf::Verdict& verdict) {
    out_.effect = verdict.code == kAccept    ? ForwardRule::Effect::kAccept
                  : verdict.code == kDropped ? ForwardRule::Effect::kDrop
                  : verdict.code == kReturn  ? ForwardRule::Effect::kReturn
                                             : ForwardRule::Effect::kNone;
    out_.is_goto = verdict.code == kGoto;
    if (verdict.code == kJump || verdict.code == kGoto) out_.jump = verdict.chain;
  }
  void read(const nf::Xt& xt) {
    if (xt.target && xt.name == "REJECT") out_.effect = ForwardRule::Effect::kDrop;
    if (!xt.target && xt.name != "comment") narrow();
  }
  void read(const nf::Unknown& unknown) {
    if (unknown.name == "reject") {
      out_.effect = ForwardRule::Effect::kDrop;
    } else if (unknown.name != "log") {
      narrow();
    }
  }
  void read(const nf::Counter& /*counter*/) {}
  template <class Other>
  void read(const Other& /*other*/) {
    narrow();
    loaded_ = Loaded::kOther;
  }

  void add(const nf::Bytes& data) {
    if (loaded_ == Loaded::kLink) {
      links_->push_back(link_in(data));
    } else if (loaded_ == Loaded::kIndex) {
      links_->push_back(link_of_index(data));
    } else if (loaded_ == Loaded::kAddress) {
      nf::Bytes whole = data;
      whole.resize(out_.family == Family::kIpv4 ? 4 : 16);
      addresses_->push_back(AddressSpan::of(Cidr::from_bytes(whole.data(), whole.size(), prefix_)));
    } else {
      narrow();
    }
  }

  nf::NfSocket& socket_;
  const nf::Rule& rule_;
  ForwardRule out_;
  Loaded loaded_ = Loaded::kNothing;
  std::vector<std::string>* links_ = &out_.in;
  std::vector<AddressSpan>* addresses_ = &out_.source;
  unsigned prefix_ = 0;
};

ForwardRules rules_of(nf::NfSocket& socket, const nf::ChainId& chain, ForwardChain& into) {
  ForwardRules out;
  for (const nf::Rule& rule : socket.rules(chain)) {
    const std::string insertion =
        into.of_iptables
            ? cat(into.v4 ? "iptables" : "ip6tables", " -I ", chain.chain, " ", out.size() + 1)
            : cat("nft insert rule ", chain.str(), " position ", rule.handle);
    const std::string jump = out.emplace_back(RuleReader(socket, rule, insertion).run()).jump;
    if (jump.empty() || !into.others.emplace(jump, ForwardRules()).second) continue;
    into.others[jump] = rules_of(socket, {chain.family, chain.table, jump}, into);
  }
  return out;
}

void add_forward(nf::NfSocket& socket, const nf::Chain& chain, Firewall& into) {
  ForwardChain& out = into.forward.emplace_back(
      ForwardChain{.name = chain.id.str(),
                   .addition = cat("nft add rule ", chain.id.str()),
                   .of_iptables = chain.id.chain == "FORWARD" && chain.id.table == "filter",
                   .of_plugin = chain.id.table == names::kFirewallTable,
                   .v4 = chain.id.family != nf::TableFamily::kIp6,
                   .v6 = chain.id.family != nf::TableFamily::kIp,
                   .drops = chain.hook->policy == kDrop,
                   .rules = {}});
  if (out.of_iptables) out.addition = cat(out.v4 ? "iptables" : "ip6tables", " -A FORWARD");
  out.rules = rules_of(socket, chain.id, out);
}

void add_exemptions(const ForwardRules& rules, const std::string& chain, Family family,
                    Firewall& into) {
  using Effect = ForwardRule::Effect;
  const auto any = AddressSpan::of({netlink::Ip::any(family), 0});
  for (const ForwardRule& rule : rules) {
    if (rule.effect != Effect::kAccept && rule.effect != Effect::kReturn) continue;
    if (rule.source.empty() && !rule.has_other_sources) into.exemptions.push_back({chain, any});
    for (const AddressSpan& source : rule.source) into.exemptions.push_back({chain, source});
  }
}

void add_exemptions(nf::NfSocket& socket, Firewall& into) {
  for (const Family family : netlink::kFamilies) {
    const bool v4 = family == Family::kIpv4;
    const nf::ChainId chain{v4 ? nf::TableFamily::kIp : nf::TableFamily::kIp6, "nat",
                            "POSTROUTING"};
    ForwardRules rules;
    for (const nf::Rule& rule : socket.rules(chain))
      rules.push_back(RuleReader(socket, rule, "").run());
    add_exemptions(rules, chain.str(), family, into);
  }
}

// "-i cni+"; an inverted option is narrow.
ForwardRule rule_of(const cni::Words& words, const cni::SavedTable& filter) {
  ForwardRule out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& option = words[i];
    const std::string value = i + 1 < words.size() ? words[i + 1] : "";
    const auto range = Cidr::parse(value);
    ++i;
    if (option == "-i" || option == "-o") {
      auto& links = option == "-i" ? out.in : out.out;
      links.push_back(value.ends_with('+') ? value.substr(0, value.size() - 1) + '*' : value);
    } else if ((option == "-s" || option == "-d") && range) {
      (option == "-s" ? out.source : out.destination).push_back(AddressSpan::of(*range));
    } else if (option == "-j" || option == "-g") {
      if (filter.chains.contains(value)) out.jump = value;
      out.is_goto = option == "-g";
      if (value == "ACCEPT") out.effect = ForwardRule::Effect::kAccept;
      if (value == "DROP" || value == "REJECT") out.effect = ForwardRule::Effect::kDrop;
      if (value == "RETURN") out.effect = ForwardRule::Effect::kReturn;
      break;  // the rest is the target's
    } else if (option == "!") {
      out.has_other_sources |= value == "-s";
      ++i;
      out.is_narrow = true;
    } else if (!(option == "-m" && value == "comment") && option != "--comment") {
      out.is_narrow = true;
    }
  }
  return out;
}

std::string legacy_tool(Family family) {
  return family == Family::kIpv4 ? "iptables-legacy" : "ip6tables-legacy";
}

void add_legacy_forward(const cni::SavedTable& filter, Family family, Firewall& into) {
  const bool v4 = family == Family::kIpv4;
  const std::string tool = legacy_tool(family);
  const auto policy = filter.chains.find("FORWARD");
  ForwardChain out{.name = cat(tool, " filter FORWARD"),
                   .addition = cat(tool, " -A FORWARD"),
                   .of_iptables = true,
                   .v4 = v4,
                   .v6 = !v4,
                   .drops = policy != filter.chains.end() && policy->second == "DROP",
                   .rules = {}};
  for (const cni::SavedRule& saved : filter.rules) {
    auto& rules = saved.chain == "FORWARD" ? out.rules : out.others[saved.chain];
    const std::string insertion = cat(tool, " -I ", saved.chain, " ", rules.size() + 1);
    rules.emplace_back(rule_of(saved.words, filter)).insertion = insertion;
  }
  into.forward.push_back(std::move(out));
}

void add_legacy(Firewall& into) {
  for (const Family family : netlink::kFamilies) {
    for (const std::string table : {"nat", "filter"}) {
      if (!nf::legacy_in_use(family, table)) continue;
      const auto saved = cni::read_saved(family, cni::XtablesVariant::kLegacy, table);
      if (!saved) {
        into.lacks_legacy_save = into.has_legacy_rules = true;  // for all that is known
        continue;
      }
      into.has_legacy_rules |= !saved->rules.empty();
      if (table == "filter") add_legacy_forward(*saved, family, into);
      if (table != "nat") continue;
      ForwardRules rules;
      for (const cni::SavedRule& rule : saved->rules) {
        if (rule.chain == "POSTROUTING") rules.push_back(rule_of(rule.words, *saved));
      }
      add_exemptions(rules, cat(legacy_tool(family), " nat POSTROUTING"), family, into);
    }
  }
}

}  // namespace

Firewall read_firewall() {
  Firewall out;
  add_legacy(out);
  auto socket = nf::NfSocket::find();
  if (!socket) return out;
  for (const nf::TableFamily family : kTableFamilies) {
    for (const nf::Chain& chain : socket->chains(family)) {
      out.chains.push_back(chain.id);
      if (chain.hook && chain.hook->type == "filter" && chain.hook->number == kForwardHook) {
        add_forward(*socket, chain, out);
      }
    }
  }
  add_exemptions(*socket, out);
  return out;
}

}  // namespace tool::doctor
