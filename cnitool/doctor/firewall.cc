#include "cnitool/doctor/firewall.h"

#include <algorithm>
#include <cstring>

#include "libcni/plugin/iptables_save.h"
#include "netlink/nf/legacy_table.h"
#include "netlink/nf/match.h"
#include "netlink/nf/socket.h"
#include "netlink/types/error.h"

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
constexpr std::uint32_t kForwardHook = 2, kDrop = 0, kIncomingName = 6, kOutgoingName = 7;
constexpr std::int32_t kAccept = 1, kJump = -3, kGoto = -4, kReturn = -5;
constexpr std::uint32_t kNetworkHeader = 1;
constexpr std::uint32_t kEqual = 0;

std::string link_in(const Bytes& bytes) {
  std::string out;
  for (const std::uint8_t byte : bytes) {
    if (byte == 0) break;
    out += static_cast<char>(byte);
  }
  return out;
}

// Meta and Cmp in turn are a comparison; whatever is not about the links makes a rule narrow.
ForwardRule rule_of(const Rule& rule) {
  ForwardRule out;
  std::string* compared = nullptr;
  for (const auto& expr : rule.exprs) {
    if (const auto* const meta = std::get_if<Meta>(&expr)) {
      compared = meta->key == kIncomingName   ? &out.in
                 : meta->key == kOutgoingName ? &out.out
                                              : nullptr;
      if (compared == nullptr) out.is_narrow = true;
    } else if (const auto* const cmp = std::get_if<Cmp>(&expr)) {
      if (compared != nullptr && cmp->op == kEqual)
        *compared = link_in(cmp->data);
      else
        out.is_narrow = true;
    } else if (const auto* const verdict = std::get_if<Verdict>(&expr)) {
      out.accepts = verdict->code == kAccept;
      if (verdict->code == kJump || verdict->code == kGoto) out.goes_to = verdict->chain;
    } else if (!std::holds_alternative<netlink::nf::Counter>(expr)) {
      out.is_narrow = true;
    }
  }
  return out;
}

void add_forward(NfSocket& socket, const Chain& chain, Firewall& into) {
  ForwardChain out{.name = chain.id.str(),
                   .of_iptables = chain.id.chain == "FORWARD" && chain.id.table == "filter",
                   .v4 = chain.id.family != TableFamily::kIp6,
                   .v6 = chain.id.family != TableFamily::kIp,
                   .drops = chain.hook->policy == kDrop,
                   .rules = {}};
  for (const Rule& rule : socket.rules(chain.id)) out.rules.push_back(rule_of(rule));
  into.forward.push_back(std::move(out));
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

// Pairs of an option and its value; whatever is not about the links makes a rule narrow.
ForwardRule rule_of(const cni::Words& words) {
  ForwardRule out;
  for (std::size_t i = 0; i + 1 < words.size() && !out.is_narrow; i += 2) {
    if (words[i] == "-i") {
      out.in = words[i + 1];
    } else if (words[i] == "-o") {
      out.out = words[i + 1];
    } else {
      out.is_narrow = words[i] != "-j";
    }
  }
  out.accepts = !words.empty() && words.back() == "ACCEPT";
  return out;
}

void add_legacy_forward(const cni::SavedTable& filter, Family family, Firewall& into) {
  const bool v4 = family == Family::kIpv4;
  const auto policy = filter.chains.find("FORWARD");
  ForwardChain out{
      .name = v4 ? "iptables-legacy filter FORWARD" : "ip6tables-legacy filter FORWARD",
      .of_iptables = true,
      .legacy = true,
      .v4 = v4,
      .v6 = !v4,
      .drops = policy != filter.chains.end() && policy->second == "DROP",
      .rules = {}};
  for (const auto& [chain, words] : filter.rules) {
    if (chain == "FORWARD") out.rules.push_back(rule_of(words));
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
      if (!table.starts_with("patchbay_hostport")) continue;
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
