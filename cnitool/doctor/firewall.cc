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

using netlink::cat;
using netlink::Cidr;
using netlink::Family;
using netlink::nf::Bytes;
using netlink::nf::Chain;
using netlink::nf::ChainId;
using netlink::nf::Cmp;
using netlink::nf::Element;
using netlink::nf::Meta;
using netlink::nf::NfSocket;
using netlink::nf::Payload;
using netlink::nf::Rule;
using netlink::nf::SetId;
using netlink::nf::TableFamily;
using netlink::nf::Verdict;

constexpr TableFamily kTableFamilies[] = {TableFamily::kInet, TableFamily::kIp, TableFamily::kIp6};
// linux/netfilter.h and linux/netfilter/nf_tables.h
constexpr std::uint32_t kForwardHook = 2, kDrop = 0;
constexpr std::uint32_t kIncoming = 4, kOutgoing = 5, kIncomingName = 6, kOutgoingName = 7,
                        kProtocol = 15;
constexpr std::int32_t kDropped = 0, kAccept = 1, kJump = -3, kGoto = -4, kReturn = -5;
constexpr std::uint32_t kNetworkHeader = 1;
constexpr std::uint32_t kEqual = 0;

// "veth*" for a comparison with the beginning of a name.
std::string link_in(const Bytes& bytes) {
  const std::string text(bytes.begin(), bytes.end());
  const auto end = text.find('\0');
  return end == std::string::npos && text.size() < IFNAMSIZ ? text + '*' : text.substr(0, end);
}

std::string link_of_index(const Bytes& bytes) {
  unsigned index = 0;
  char name[IFNAMSIZ] = {};
  if (bytes.size() != sizeof index) return {};
  std::memcpy(&index, bytes.data(), sizeof index);
  return ::if_indextoname(index, name) == nullptr ? "" : name;
}

/// Reads the expressions of a rule. Whatever is not about links and addresses makes it narrow.
class RuleReader {
 public:
  RuleReader(NfSocket& socket, const Rule& rule) : socket_(socket), rule_(rule) {
    if (rule.chain.family == TableFamily::kIp) out_.family = Family::kIpv4;
    if (rule.chain.family == TableFamily::kIp6) out_.family = Family::kIpv6;
    out_.removal = cat("nft delete rule ", rule.chain.str(), " handle ", rule.handle);
  }

  ForwardRule run() {
    for (const auto& expr : rule_.exprs) {
      std::visit([this](const auto& one) { read(one); }, expr);
    }
    return std::move(out_);
  }

 private:
  enum class Loaded { kNothing, kLink, kIndex, kAddress, kFamily, kOther };

  void read(const Meta& meta) {
    const bool in = meta.key == kIncoming || meta.key == kIncomingName;
    const bool out = meta.key == kOutgoing || meta.key == kOutgoingName;
    links_ = in ? &out_.in : &out_.out;
    loaded_ = meta.key == kIncomingName || meta.key == kOutgoingName ? Loaded::kLink
              : in || out                                            ? Loaded::kIndex
              : meta.key == kProtocol                                ? Loaded::kFamily
                                                                     : Loaded::kOther;
  }
  void read(const Payload& load) {
    const bool v4 = out_.family == Family::kIpv4;
    const std::uint32_t source = v4 ? 12 : 8, destination = v4 ? 16 : 24;
    const bool is_address = out_.family && load.base == kNetworkHeader &&
                            (load.offset == source || load.offset == destination);
    addresses_ = load.offset == source ? &out_.source : &out_.destination;
    loaded_ = is_address ? Loaded::kAddress : Loaded::kOther;
    prefix_ = load.len * 8;
  }
  void read(const netlink::nf::Bitwise& mask) {
    prefix_ = 0;
    for (const std::uint8_t byte : mask.mask) prefix_ += static_cast<unsigned>(std::popcount(byte));
  }
  void read(const Cmp& cmp) {
    if (cmp.op != kEqual) {
      out_.is_narrow = true;
    } else if (loaded_ == Loaded::kFamily && !cmp.data.empty()) {
      out_.family = cmp.data[0] == AF_INET ? Family::kIpv4 : Family::kIpv6;
    } else {
      add(cmp.data);
    }
  }
  // Where a set has ranges, what they are is not told by its keys.
  void read(const netlink::nf::Lookup& lookup) {
    const bool is_read = loaded_ == Loaded::kLink || loaded_ == Loaded::kIndex;
    if (lookup.inverted || lookup.dreg || !is_read) {
      out_.is_narrow = true;
      return;
    }
    const SetId set{rule_.chain.family, rule_.chain.table, lookup.set};
    for (const Element& one : socket_.all_elements(set)) add(one.key);
    if (links_->empty()) out_.is_narrow = true;
  }
  void read(const Verdict& verdict) {
    out_.effect = verdict.code == kAccept    ? ForwardRule::Effect::kAccept
                  : verdict.code == kDropped ? ForwardRule::Effect::kDrop
                  : verdict.code == kReturn  ? ForwardRule::Effect::kReturn
                                             : ForwardRule::Effect::kNone;
    out_.is_goto = verdict.code == kGoto;
    if (verdict.code == kJump || verdict.code == kGoto) out_.jump = verdict.chain;
  }
  void read(const netlink::nf::Xt& xt) {
    if (xt.target && xt.name == "REJECT") out_.effect = ForwardRule::Effect::kDrop;
    if (!xt.target && xt.name != "comment") out_.is_narrow = true;
  }
  void read(const netlink::nf::Unknown& unknown) {
    if (unknown.name == "reject") {
      out_.effect = ForwardRule::Effect::kDrop;
    } else if (unknown.name != "log") {
      out_.is_narrow = true;
    }
  }
  void read(const netlink::nf::Counter& /*counter*/) {}
  template <class Other>
  void read(const Other& /*other*/) {
    loaded_ = Loaded::kOther;
    out_.is_narrow = true;
  }

  void add(const Bytes& data) {
    if (loaded_ == Loaded::kLink) {
      links_->push_back(link_in(data));
    } else if (loaded_ == Loaded::kIndex) {
      links_->push_back(link_of_index(data));
    } else if (loaded_ == Loaded::kAddress) {
      Bytes whole = data;
      whole.resize(out_.family == Family::kIpv4 ? 4 : 16);
      addresses_->push_back(Cidr::from_bytes(whole.data(), whole.size(), prefix_));
    } else {
      out_.is_narrow = true;
    }
  }

  NfSocket& socket_;
  const Rule& rule_;
  ForwardRule out_ = {};
  Loaded loaded_ = Loaded::kNothing;
  std::vector<std::string>* links_ = &out_.in;
  std::vector<Cidr>* addresses_ = &out_.source;
  unsigned prefix_ = 0;
};

ForwardRules rules_of(NfSocket& socket, const ChainId& chain, ForwardChain& into) {
  ForwardRules out;
  for (const Rule& rule : socket.rules(chain)) {
    const std::string jump = out.emplace_back(RuleReader(socket, rule).run()).jump;
    if (jump.empty() || !into.others.emplace(jump, ForwardRules()).second) continue;
    into.others[jump] = rules_of(socket, {chain.family, chain.table, jump}, into);
  }
  return out;
}

void add_forward(NfSocket& socket, const Chain& chain, Firewall& into) {
  ForwardChain& out = into.forward.emplace_back(
      ForwardChain{.name = chain.id.str(),
                   .of_iptables = chain.id.chain == "FORWARD" && chain.id.table == "filter",
                   .v4 = chain.id.family != TableFamily::kIp6,
                   .v6 = chain.id.family != TableFamily::kIp,
                   .drops = chain.hook->policy == kDrop,
                   .rules = {}});
  out.rules = rules_of(socket, chain.id, out);
}

// Nothing where it cannot be told.
std::optional<Cidr> source_of(const Rule& rule, Family family) {
  const auto exact = netlink::nf::address_of(rule.exprs, netlink::nf::Side::kSource, family);
  if (exact) return exact;
  const std::uint32_t offset = family == Family::kIpv4 ? 12 : 8;  // of the source in the header
  for (const auto& expr : rule.exprs) {
    const auto* const load = std::get_if<Payload>(&expr);
    if (load != nullptr && load->base == kNetworkHeader && load->offset == offset) return {};
  }
  return Cidr{netlink::Ip::any(family), 0};
}

void add_exemptions(NfSocket& socket, Firewall& into) {
  for (const Family family : netlink::kFamilies) {
    const bool v4 = family == Family::kIpv4;
    const ChainId chain{v4 ? TableFamily::kIp : TableFamily::kIp6, "nat", "POSTROUTING"};
    for (const Rule& rule : socket.rules(chain)) {
      const bool exempts = std::any_of(rule.exprs.begin(), rule.exprs.end(), [](const auto& expr) {
        const auto* const verdict = std::get_if<Verdict>(&expr);
        return verdict != nullptr && (verdict->code == kAccept || verdict->code == kReturn);
      });
      const auto source = exempts ? source_of(rule, family) : std::nullopt;
      if (source) into.exemptions.push_back({chain.str(), *source});
    }
  }
}

// "-s 10.1.0.0/24": any of the family without it; nothing where it is inverted or cannot be told.
std::optional<Cidr> source_of(const cni::Words& rule, Family family) {
  const auto at = std::find(rule.begin(), rule.end(), "-s");
  if (at == rule.end()) return Cidr{netlink::Ip::any(family), 0};
  if ((at != rule.begin() && at[-1] == "!") || at + 1 == rule.end()) return std::nullopt;
  return Cidr::parse(at[1]);
}

void add_legacy_exemptions(const cni::SavedTable& nat, Family family, Firewall& into) {
  const bool v4 = family == Family::kIpv4;
  for (const auto& [chain, words] : nat.rules) {
    if (chain != "POSTROUTING" || words.empty()) continue;
    if (words.back() != "ACCEPT" && words.back() != "RETURN") continue;
    const auto source = source_of(words, family);
    if (!source) continue;
    into.exemptions.push_back(
        {v4 ? "iptables-legacy nat POSTROUTING" : "ip6tables-legacy nat POSTROUTING", *source});
  }
}

// "-i cni+"; an inverted option is narrow.
ForwardRule rule_of(const cni::SavedRule& saved, const cni::SavedTable& filter,
                    const std::string& tool) {
  const cni::Words& words = saved.words;
  ForwardRule out{.removal = cat(tool, " -D ", saved.chain)};
  for (const std::string& word : words) out.removal += cat(" ", word);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& option = words[i];
    const std::string value = i + 1 < words.size() ? words[i + 1] : "";
    const auto range = Cidr::parse(value);
    ++i;
    if (option == "-i" || option == "-o") {
      auto& links = option == "-i" ? out.in : out.out;
      links.push_back(value.ends_with('+') ? value.substr(0, value.size() - 1) + '*' : value);
    } else if ((option == "-s" || option == "-d") && range) {
      (option == "-s" ? out.source : out.destination).push_back(*range);
    } else if (option == "-j" || option == "-g") {
      if (filter.chains.contains(value)) out.jump = value;
      out.is_goto = option == "-g";
      if (value == "ACCEPT") out.effect = ForwardRule::Effect::kAccept;
      if (value == "DROP" || value == "REJECT") out.effect = ForwardRule::Effect::kDrop;
      if (value == "RETURN") out.effect = ForwardRule::Effect::kReturn;
      break;  // the rest is the target's
    } else if (option == "!") {
      ++i;
      out.is_narrow = true;
    } else if (!(option == "-m" && value == "comment") && option != "--comment") {
      out.is_narrow = true;
    }
  }
  return out;
}

void add_legacy_forward(const cni::SavedTable& filter, Family family, Firewall& into) {
  const bool v4 = family == Family::kIpv4;
  const std::string tool = v4 ? "iptables-legacy" : "ip6tables-legacy";
  const auto policy = filter.chains.find("FORWARD");
  ForwardChain out{.name = cat(tool, " filter FORWARD"),
                   .of_iptables = true,
                   .legacy = true,
                   .v4 = v4,
                   .v6 = !v4,
                   .drops = policy != filter.chains.end() && policy->second == "DROP",
                   .rules = {}};
  for (const cni::SavedRule& saved : filter.rules) {
    auto& rules = saved.chain == "FORWARD" ? out.rules : out.others[saved.chain];
    rules.push_back(rule_of(saved, filter, tool));
  }
  into.forward.push_back(std::move(out));
}

std::string port_text(const Bytes& key) {
  // Protocol and port are the last two parts, each padded to four bytes.
  if (key.size() < 8) return "hostPort";
  const std::uint8_t protocol = key[key.size() - 8];
  const unsigned port = key[key.size() - 4] * 256U + key[key.size() - 3];
  const char* const name = protocol == 6     ? "/tcp"
                           : protocol == 17  ? "/udp"
                           : protocol == 132 ? "/sctp"
                                             : "";
  return cat("hostPort ", port, name);
}

// Whether all local addresses lead to the table's ports. Expressions of conditions, which may
// exempt addresses, precede those of the jump: fib, cmp and verdict.
bool redirects_unconditionally(NfSocket& socket, TableFamily family, const std::string& table) {
  const auto rules = socket.rules({family, table, "prerouting"});
  return std::any_of(rules.begin(), rules.end(), [](const Rule& rule) {
    return rule.exprs.size() == 3 && netlink::nf::target_of(rule.exprs) == "hostports";
  });
}

// Ports of portmap's tables that every local address leads to.
void add_host_ports(NfSocket& socket, Firewall& into) {
  for (const TableFamily family : {TableFamily::kIp, TableFamily::kIp6}) {
    for (const std::string& table : socket.tables(family)) {
      if (!table.starts_with(names::kHostPortTable)) continue;
      if (!redirects_unconditionally(socket, family, table)) continue;
      for (const Element& one : socket.all_elements(SetId{family, table, "ports"})) {
        into.any_address_ports.push_back(port_text(one.key));
      }
    }
  }
}

void add_legacy(Firewall& into) {
  for (const Family family : netlink::kFamilies) {
    for (const std::string table : {"nat", "filter"}) {
      if (!netlink::nf::legacy_in_use(family, table)) continue;
      const auto saved = cni::read_saved(family, cni::XtablesVariant::kLegacy, table);
      if (!saved) {
        into.lacks_legacy_save = into.has_legacy_rules = true;  // for all that is known
        continue;
      }
      into.has_legacy_rules |= !saved->rules.empty();
      if (table == "nat") add_legacy_exemptions(*saved, family, into);
      if (table == "filter") add_legacy_forward(*saved, family, into);
    }
  }
}

}  // namespace

bool Firewall::has_table(const std::string& name) const {
  return std::any_of(chains.begin(), chains.end(),
                     [&](const auto& chain) { return chain.table == name; });
}

bool Firewall::has_chain(const std::string& name) const {
  return std::any_of(chains.begin(), chains.end(),
                     [&](const auto& chain) { return chain.chain == name; });
}

Firewall read_firewall() {
  Firewall out;
  add_legacy(out);
  auto socket = NfSocket::find();
  if (!socket) return out;
  for (const TableFamily family : kTableFamilies) {
    for (const Chain& chain : socket->chains(family)) {
      out.chains.push_back(chain.id);
      if (chain.hook && chain.hook->type == "filter" && chain.hook->number == kForwardHook) {
        add_forward(*socket, chain, out);
      }
    }
  }
  add_exemptions(*socket, out);
  add_host_ports(*socket, out);
  return out;
}

}  // namespace tool::doctor
