#include "plugins/portmap/table.h"

#include <linux/netfilter/nf_tables.h>

#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "netlink/nf/match.h"
#include "plugins/portmap/conditions.h"
#include "plugins/portmap/table_rules.h"

namespace portmap::nft {

namespace {

using cni::cat;
using netlink::nf::Batch;
using netlink::nf::Bytes;
using netlink::nf::Chain;
using netlink::nf::ChainId;
using netlink::nf::Element;
using netlink::nf::Exprs;
using netlink::nf::KeyType;
using netlink::nf::NfSocket;
using netlink::nf::Rule;
using netlink::nf::Set;
using netlink::nf::SetId;
using netlink::nf::Table;
using netlink::nf::Type;

std::vector<Set> sets_of(Family family, const std::string& table) {
  const Type address = v4(family) ? Type::kIpv4Address : Type::kIpv6Address;
  const KeyType port{Type::kInetProto, Type::kInetService};
  const KeyType hostip_port{address, Type::kInetProto, Type::kInetService};
  const KeyType target{address, Type::kInetService};
  const auto set = [&](const char* name, const KeyType& key) {
    return Set{.id = {table_family(family), table, name}, .key = key, .data = {}};
  };
  const auto map = [&](const char* name, const KeyType& key) {
    return Set{.id = {table_family(family), table, name}, .key = key, .data = target};
  };
  return {
      map("ports", port),
      map("ports_hostip", hostip_port),
      set("masq_from", {address, address, Type::kInetProto, Type::kInetService}),
      set("masq_from_hostip", {address, address, address, Type::kInetProto, Type::kInetService}),
      set("masq_all", port),
      set("masq_all_hostip", hostip_port)};
}

// The prefix length of the subnet from `first` to `last`, addresses of `length` bytes.
unsigned prefix_between(const std::uint8_t* first, const std::uint8_t* last, std::size_t length) {
  unsigned prefix = 0;
  for (std::size_t i = 0; i < length; ++i) {
    const auto differing = static_cast<std::uint8_t>(first[i] ^ last[i]);
    prefix += static_cast<unsigned>(std::countl_zero(differing));
    if (differing != 0) break;
  }
  return prefix;
}

// The prefix lengths that the attachment's elements need rules for.
std::set<unsigned> prefixes_of(const AttachmentState& attachment, Family family) {
  const auto& pod = attachment.pod.of(family);
  if (!pod || !attachment.options.snat || attachment.options.masq_all) return {};
  return {pod->prefix};
}

// For the attachment and all elements of the table: those of other pods need their rules when the
// table is restored. It dumps the sets.
Layout layout_for(NfSocket& socket, Family family, const AttachmentState& attachment) {
  Layout out{family, attachment.options, prefixes_of(attachment, family)};
  const std::string table = table_of(attachment.options);
  const std::size_t length = Ip::any(family).size();
  for (const Set& set : sets_of(family, table)) {
    if (!set.id.set.starts_with("masq_from")) continue;
    for (const Element& element : socket.all_elements(set.id)) {
      if (element.key.size() != set.key.length()) continue;  // another program made the set
      const std::uint8_t* const last = element.key.data() + element.key.size() - 8 - length;
      if (Ip::from_bytes(last, length).is_loopback()) continue;
      out.prefixes.insert(prefix_between(last - length, last, length));
    }
  }
  for (const char* name : {"hairpin", "hairpin_hostip"}) {
    const SetId set{table_family(family), table, name};
    out.by_link = out.by_link || !socket.all_elements(set).empty();
  }
  return out;
}

// Compares the rules of the chain. With conditions the last one is a jump after expressions that
// nft compiled, which are not compared.
bool as_wanted(const StaticChain& chain, const std::vector<Rule>& rules, bool conditional) {
  std::vector<const Exprs*> seen;
  for (const Rule& rule : rules) {
    if (rule.chain.chain == chain.name) seen.push_back(&rule.exprs);
  }
  if (conditional && chain.jumps) {
    if (seen.empty() || netlink::nf::target_of(*seen.back()) != kHostports) return false;
    seen.pop_back();
  }
  return std::equal(seen.begin(), seen.end(), chain.rules.begin(), chain.rules.end(),
                    [](const Exprs* one, const Exprs& other) { return *one == other; });
}

bool is_jump(const Rule& rule) { return netlink::nf::target_of(rule.exprs) == kHostports; }

// Replaces the jumps behind the conditions.
std::string nft_text(const Layout& layout, const std::vector<Rule>& seen) {
  const std::string conditions = text_of(layout.options.conditions(layout.family));
  std::string out;
  for (const char* name : {"prerouting", "output"}) {
    const std::string chain =
        cat(v4(layout.family) ? "ip " : "ip6 ", table_of(layout.options), " ", name, " ");
    out += cat("add rule ", chain, conditions, " fib daddr type local jump ", kHostports, "\n");
    for (const Rule& rule : seen) {
      if (rule.chain.chain != name || !is_jump(rule)) continue;
      out += cat("delete rule ", chain, "handle ", rule.handle, "\n");
    }
  }
  return out;
}

// With conditions, whose rules nft adds, there is none. Without room for it, for a dozen and more
// prefix lengths, each ADD puts the rules again.
std::string summary_of(const Layout& layout) {
  constexpr std::size_t kMostComment = 128;  // nft's
  if (!layout.options.conditions(layout.family).empty()) return {};
  std::string text = Summary(layout).str();
  return text.size() <= kMostComment ? text : std::string();
}

// What the table says of its rules; tables of earlier versions do not.
std::optional<Summary> summary_in(NfSocket& socket, const ChainId& postrouting) {
  const auto rules = socket.rules(postrouting);
  return rules.size() == 1 ? Summary::parse(rules[0].comment) : std::nullopt;
}

// Whether the table has as many rules as its summary says.
bool holds(NfSocket& socket, const Summary& summary, ChainId chain) {
  std::vector<ChainId> chains;
  std::vector<std::optional<std::uint32_t>> uses;
  for (const auto& [name, count] : summary.uses) {
    chain.chain = name;
    chains.push_back(chain);
    uses.emplace_back(count);
  }
  return socket.uses_of(chains) == uses;
}

bool is_as_wanted(NfSocket& socket, Family family, const AttachmentState& attachment,
                  Compare compare) {
  const Options& options = attachment.options;
  if (compare == Compare::kSummary && options.conditions(family).empty()) {
    const ChainId chain{table_family(family), table_of(options), kPostrouting};
    const auto summary = summary_in(socket, chain);
    if (!summary) return false;
    const auto wanted = prefixes_of(attachment, family);
    if (std::includes(summary->prefixes.begin(), summary->prefixes.end(), wanted.begin(),
                      wanted.end()) &&
        holds(socket, *summary, chain)) {
      return true;
    }
  }
  return flaw_in(socket, family, attachment).empty();
}

// The table without rules.
void put_objects(const Layout& layout, Batch& batch) {
  const auto family = table_family(layout.family);
  const std::string table = table_of(layout.options);
  batch.add(Table{family, table, "hostPorts of pods"});
  for (Set& set : sets_of(layout.family, table)) batch.add(std::move(set));
  for (const StaticChain& chain : chains_of(layout)) {
    batch.add(Chain{{family, table, chain.name}, chain.hook});
  }
}

void put_table(const Layout& layout, Batch& batch) {
  put_objects(layout, batch);
  const std::string summary = summary_of(layout);
  for (const StaticChain& chain : chains_of(layout)) {
    const ChainId id{table_family(layout.family), table_of(layout.options), chain.name};
    const bool has_summary = chain.name == std::string_view(kPostrouting);
    batch.flush(id);
    for (const Exprs& exprs : chain.rules) {
      batch.add(Rule{id, exprs, has_summary ? summary : std::string()});
    }
  }
}

// Replaces the rules but for the jumps behind the conditions, which stay the last of their chains.
void put_rules_before_jumps(const Layout& layout, const std::vector<Rule>& seen, Batch& batch) {
  for (const StaticChain& chain : chains_of(layout)) {
    const ChainId id{table_family(layout.family), table_of(layout.options), chain.name};
    for (const Rule& rule : seen) {
      if (rule.chain == id && !(chain.jumps && is_jump(rule))) batch.remove(rule);
    }
    for (auto exprs = chain.rules.rbegin(); exprs != chain.rules.rend(); ++exprs) {
      batch.add(Rule{.chain = id, .exprs = *exprs, .first = true});
    }
  }
}

// nft adds the jumps in a transaction of its own, before batch has the other rules. After each of
// them, and if either fails or this process is killed, the ports of other pods are redirected. A
// new table is removed if nft rejects the conditions.
void put_conditional(NfSocket& socket, const Layout& layout, Batch& batch) {
  const Options& options = layout.options;
  const auto family = table_family(layout.family);
  const bool is_new = !socket.has_table(family, table_of(options));
  const auto seen = socket.table_rules(family, table_of(options));
  Batch objects;
  put_objects(layout, objects);
  socket.commit(objects);
  try {
    cni::during(options.describe_conditions(layout.family),
                [&] { run_nft(nft_text(layout, seen)); });
  } catch (const cni::Error&) {
    Batch removal;
    removal.remove(netlink::nf::DeleteTable{family, table_of(options)});
    if (is_new) socket.commit(removal);
    throw;
  }
  put_rules_before_jumps(layout, seen, batch);
}

// A key: the address of the node, if any, `source`, protocol and port.
Bytes with_port(const Bytes& source, const Key& key) {
  return netlink::nf::concatenate(
      {key.address ? netlink::nf::value_of(*key.address) : Bytes{}, source,
       netlink::nf::value_of_protocol(static_cast<std::uint8_t>(key.protocol)),
       netlink::nf::value_of_port(key.port)});
}

}  // namespace

std::string table_of(const Options& options) {
  const Options usual;
  if (options.mark_bit == usual.mark_bit && !options.has_conditions()) return kTablePrefix;
  std::string text = cat(options.mark_bit);
  for (const auto* list : {&options.conditions_v4, &options.conditions_v6}) {
    text += '\n';
    for (const std::string& one : *list) text += one + '\0';
  }
  return cat(kTablePrefix, "_", cni::sha512_hex(text, 8));
}

netlink::nf::TableFamily table_family(Family family) {
  return v4(family) ? netlink::nf::TableFamily::kIp : netlink::nf::TableFamily::kIp6;
}

SetId set_of(Kind kind, const Key& key, const std::string& table) {
  constexpr std::array kNames{"ports", "masq_from", "masq_all", "hairpin"};
  const char* const name = kNames.at(static_cast<std::size_t>(kind));
  return {table_family(key.family), table, cat(name, key.address ? "_hostip" : "")};
}

std::vector<SetId> all_sets(Family family, const std::string& table) {
  std::vector<SetId> out;
  for (const Set& set : sets_of(family, table)) out.push_back(set.id);
  for (const char* name : {"hairpin", "hairpin_hostip"}) {
    out.push_back({table_family(family), table, name});
  }
  return out;
}

Bytes ports_key(const Key& key) { return with_port({}, key); }

Bytes masq_from_key(const Key& key, const Cidr& subnet) {
  Bytes range = netlink::nf::value_of(subnet.network().ip);
  const Bytes last = netlink::nf::value_of(subnet.ip.broadcast(subnet.prefix));
  range.insert(range.end(), last.begin(), last.end());
  return with_port(range, key);
}

Bytes hairpin_key(const Key& key, const std::string& link) {
  return with_port(netlink::nf::value_of_ifname(link), key);
}

Bytes ports_data(const Claim& claim) {
  return netlink::nf::concatenate(
      {netlink::nf::value_of(claim.target), netlink::nf::value_of_port(claim.target_port)});
}

void put_table(Family family, const Options& options, Batch& batch) {
  put_table({.family = family, .options = options, .prefixes = {Ip::any(family).bits()}}, batch);
}

std::string flaw_in(NfSocket& socket, Family family, const AttachmentState& attachment) {
  const Options& options = attachment.options;
  const std::string table = table_of(options);
  const auto seen = socket.table_rules(table_family(family), table);
  const std::string name = cat(name_of(table_family(family)), " ", table);
  if (seen.empty()) return cat("table '", name, "' is missing");
  const Layout layout = layout_in(seen, family, options);
  const bool conditional = !options.conditions(family).empty();
  for (const StaticChain& chain : chains_of(layout)) {
    if (as_wanted(chain, seen, conditional)) continue;
    return cat("the rules of chain '", name, " ", chain.name, "' are not those that ADD adds");
  }
  for (const unsigned prefix : prefixes_of(attachment, family)) {
    if (layout.prefixes.contains(prefix)) continue;
    return cat("chain '", name, " ", kHostports, "' has no rule for subnets of /", prefix);
  }
  return {};
}

void ensure(NfSocket& socket, Family family, const AttachmentState& attachment, Compare compare,
            Batch& batch) {
  if (is_as_wanted(socket, family, attachment, compare)) return;
  const Layout layout = layout_for(socket, family, attachment);
  if (!attachment.options.conditions(family).empty()) {
    return put_conditional(socket, layout, batch);
  }
  put_table(layout, batch);
}

}  // namespace portmap::nft
