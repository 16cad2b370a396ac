// In a network namespace of its own: maps and sets and the rules that ask them, loaded side by side
// with what nft makes of the same text. Needs root; exits with 77 where it may not unshare.
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>

#include <algorithm>
#include <cerrno>
#include <regex>
#include <string>
#include <vector>

#include "netlink/nf/match.h"
#include "netlink/nf/socket.h"
#include "netlink/types/error.h"
#include "tests/netns/node.h"

using namespace netlink;
using namespace netlink::nf;
using node::output_of;
using node::run;
using node::TextFile;

namespace {

const std::string kSkeleton = R"(table ip t {
	map ports {
		type inet_proto . inet_service : ipv4_addr . inet_service
		comment "of all addresses"
	}

	map ports_hostip {
		type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service
	}

	set hairpin {
		type ifname . inet_proto . inet_service
	}

	set hairpin_hostip {
		type ipv4_addr . ifname . inet_proto . inet_service
	}

	set masq_all {
		type inet_proto . inet_service
		comment "all"
	}

	set sources {
		type ipv4_addr
	}

	chain hostports {
		ip daddr . iifname . meta l4proto . th dport @hairpin_hostip meta mark set meta mark | 0x00002000
		iifname . meta l4proto . th dport @hairpin meta mark set meta mark | 0x00002000
		meta l4proto . th dport @masq_all meta mark set meta mark | 0x00002000
		dnat ip to ip daddr . meta l4proto . th dport map @ports_hostip
		dnat ip to meta l4proto . th dport map @ports
	}

	chain prerouting {
		type nat hook prerouting priority dstnat + 5; policy accept;
		ip daddr 127.0.0.0/8 return
		fib daddr type local jump hostports
	}

	chain postrouting {
		type nat hook postrouting priority srcnat - 5; policy accept;
		meta mark & 0x00002000 == 0x00002000 ct status & dnat == dnat masquerade
	}

	chain guard {
		type filter hook input priority mangle; policy accept;
		iifname != "lo" ip daddr 127.0.0.0/8 ct state ! established,related ct status ! dnat drop
	}
}
table ip6 t {
	map ports {
		type inet_proto . inet_service : ipv6_addr . inet_service
		comment "of all addresses"
	}

	map ports_hostip {
		type ipv6_addr . inet_proto . inet_service : ipv6_addr . inet_service
	}

	set hairpin {
		type ifname . inet_proto . inet_service
	}

	set hairpin_hostip {
		type ipv6_addr . ifname . inet_proto . inet_service
	}

	set masq_all {
		type inet_proto . inet_service
		comment "all"
	}

	set sources {
		type ipv6_addr
	}

	chain hostports {
		ip6 daddr . iifname . meta l4proto . th dport @hairpin_hostip meta mark set meta mark | 0x00002000
		iifname . meta l4proto . th dport @hairpin meta mark set meta mark | 0x00002000
		meta l4proto . th dport @masq_all meta mark set meta mark | 0x00002000
		dnat ip6 to ip6 daddr . meta l4proto . th dport map @ports_hostip
		dnat ip6 to meta l4proto . th dport map @ports
	}

	chain prerouting {
		type nat hook prerouting priority dstnat + 5; policy accept;
		ip6 daddr ::1 return
		fib daddr type local jump hostports
	}

	chain postrouting {
		type nat hook postrouting priority srcnat - 5; policy accept;
		meta mark & 0x00002000 == 0x00002000 ct status & dnat == dnat masquerade
	}
}
)";

constexpr std::uint32_t kBit = 0x2000;

Exprs join(std::initializer_list<Exprs> parts) {
  Exprs out;
  for (const Exprs& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

Exprs has_bits(const Expr& load, std::uint32_t mask, std::uint32_t value) {
  return {load, Bitwise{host_order(mask), host_order(0)}, Cmp{NFT_CMP_EQ, host_order(value)}};
}

// The skeleton for one family, in this project's structs.
struct Skeleton {
  Family family;
  TableFamily table = family == Family::kIpv4 ? TableFamily::kIp : TableFamily::kIp6;
  bool v4 = family == Family::kIpv4;
  Type address = KeyType::address(family);

  SetId set(const char* name) const { return {table, "t", name}; }
  ChainId chain(const char* name) const { return {table, "t", name}; }

  std::vector<Set> sets() const {
    const KeyType port{Type::kInetProto, Type::kInetService};
    const KeyType target{address, Type::kInetService};
    return {{set("ports"), port, target, "of all addresses"},
            {set("ports_hostip"), {address, Type::kInetProto, Type::kInetService}, target},
            {set("hairpin"), {Type::kIfname, Type::kInetProto, Type::kInetService}},
            {set("hairpin_hostip"), {address, Type::kIfname, Type::kInetProto, Type::kInetService}},
            {set("masq_all"), port, {}, "all"},
            {set("sources"), {address}}};
  }

  std::uint32_t reg_at(std::uint32_t word) const { return word % 4 == 0 ? 1 + word / 4 : 8 + word; }

  Exprs key(bool with_address, bool with_link) const {
    Exprs out;
    std::uint32_t word = 0;
    if (with_address) {
      out.emplace_back(Payload{NFT_PAYLOAD_NETWORK_HEADER, v4 ? 16U : 24U, v4 ? 4U : 16U, 1});
      word += v4 ? 1 : 4;
    }
    if (with_link) {
      out.emplace_back(Meta{NFT_META_IIFNAME, reg_at(word)});
      word += 4;
    }
    out.emplace_back(Meta{NFT_META_L4PROTO, reg_at(word)});
    out.emplace_back(Payload{NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, reg_at(word + 1)});
    return out;
  }

  Exprs mark(const Exprs& key, const char* name) const {
    return join({key,
                 {Lookup{name}, Meta{NFT_META_MARK}, Bitwise{host_order(~kBit), host_order(kBit)},
                  Meta{.key = NFT_META_MARK, .set = true}}});
  }

  Exprs dnat(const Exprs& key, const char* name) const {
    return join({key,
                 {Lookup{.set = name, .dreg = 1},
                  Nat{.type = NFT_NAT_DNAT,
                      .family = static_cast<std::uint32_t>(v4 ? NFPROTO_IPV4 : NFPROTO_IPV6),
                      .port_reg = v4 ? 9U : 2U}}});
  }

  std::vector<Rule> rules() const {
    const Cidr localhost = *Cidr::parse(v4 ? "127.0.0.0/8" : "::1/128");
    const Exprs to_localhost = nf::address(Side::kDestination, Compare::kEqual, localhost);
    std::vector<Rule> out{
        {chain("hostports"), mark(key(true, true), "hairpin_hostip")},
        {chain("hostports"), mark(key(false, true), "hairpin")},
        {chain("hostports"), mark(key(false, false), "masq_all")},
        {chain("hostports"), dnat(key(true, false), "ports_hostip")},
        {chain("hostports"), dnat(key(false, false), "ports")},
        {chain("prerouting"), join({to_localhost, {return_verdict()}})},
        {chain("prerouting"),
         {Fib{NFT_FIB_RESULT_ADDRTYPE, NFTA_FIB_F_DADDR}, Cmp{NFT_CMP_EQ, host_order(2)},
          jump_to("hostports")}},
        {chain("postrouting"), join({has_bits(Meta{NFT_META_MARK}, kBit, kBit),
                                     has_bits(Ct{NFT_CT_STATUS}, IPS_DST_NAT, IPS_DST_NAT),
                                     {Masq{}}})}};
    if (!v4) return out;
    Exprs not_lo = iifname("lo");
    std::get<Cmp>(not_lo[1]).op = NFT_CMP_NEQ;
    const std::uint32_t known = NF_CT_STATE_BIT(IP_CT_ESTABLISHED) | NF_CT_STATE_BIT(IP_CT_RELATED);
    out.push_back({chain("guard"), join({not_lo,
                                         to_localhost,
                                         has_bits(Ct{NFT_CT_STATE}, known, 0),
                                         has_bits(Ct{NFT_CT_STATUS}, IPS_DST_NAT, 0),
                                         {drop()}})});
    return out;
  }

  void put(Batch& batch) const {
    batch.add(Table{table, "t"});
    for (const Set& one : sets()) batch.add(one);
    batch.add(Chain{chain("hostports")});
    batch.add(Chain{chain("prerouting"), Hook{"nat", NF_INET_PRE_ROUTING, -95}});
    batch.add(Chain{chain("postrouting"), Hook{"nat", NF_INET_POST_ROUTING, 95}});
    if (v4) batch.add(Chain{chain("guard"), Hook{"filter", NF_INET_LOCAL_IN, -150}});
    for (const Rule& rule : rules()) batch.add(rule);
  }
};

const Skeleton kV4{Family::kIpv4};
const Skeleton kV6{Family::kIpv6};

void load(NfSocket& socket) {
  Batch batch;
  kV4.put(batch);
  kV6.put(batch);
  socket.commit(batch);
}

std::string listed_json() {
  return std::regex_replace(output_of("nft -j list ruleset"), std::regex(", \"handle\": [0-9]+"),
                            "");
}

// Nothing but the rules of nft's debugging output: "FAMILY TABLE CHAIN\n", "  [ ... ]\n", ...,
// "\n".
std::string rules_in(const std::string& debug_output) {
  std::string out;
  const std::regex rule("ip6? t [a-z]+\n(  \\[ [^\n]*\n)+");  // since nft 1.1 without a blank line
  for (std::sregex_iterator at(debug_output.begin(), debug_output.end(), rule), end; at != end;
       ++at) {
    out += at->str() + '\n';
  }
  return out;
}

// As many rules, one for each address from 10.0.0.1 on, in a chain of IPv4.
void add_rules(NfSocket& socket, const ChainId& chain, int count) {
  Batch batch;
  batch.add(Chain{chain});
  Ip ip = *Ip::parse("10.0.0.1");
  for (int i = 0; i < count; ++i, ip = *ip.next()) {
    batch.add(
        Rule{chain, join({nf::address(Side::kSource, Compare::kEqual, Cidr{ip, 32}), {accept()}})});
  }
  socket.commit(batch);
}

// The errno of a commit that is refused, and what it said.
int refusal(NfSocket& socket, const Batch& batch, std::string* operation = nullptr) try {
  socket.commit(batch);
  return 0;
} catch (const Error& e) {
  if (operation != nullptr) *operation = e.operation();
  return e.error();
}

}  // namespace

TEST_CASE("nft lists sets, maps and rules as if it had made them") {
  const node::Fresh node;
  NfSocket socket;
  load(socket);
  CHECK(output_of("nft list ruleset") == kSkeleton);
  const std::string ours = listed_json();
  const TextFile file(kSkeleton);
  REQUIRE(run("nft -c -f " + file.path));
  REQUIRE(run("nft flush ruleset && nft -f " + file.path));
  CHECK(listed_json() == ours);
  CHECK(output_of("nft list ruleset") == kSkeleton);
}

TEST_CASE("the bytecode is nft's") {
  const node::Fresh node;
  const TextFile file(kSkeleton);
  std::string ours;
  for (const Skeleton& skeleton : {kV4, kV6}) {
    for (const Rule& rule : skeleton.rules()) ours += text(rule);
  }
  CHECK(rules_in(output_of("nft --debug=netlink -c -f " + file.path)) == ours);
}

TEST_CASE("rules read back as they were written") {
  const node::Fresh node;
  NfSocket socket;
  load(socket);
  for (const Skeleton& skeleton : {kV4, kV6}) {
    std::vector<Rule> seen = socket.table_rules(skeleton.table, "t");
    for (Rule& rule : seen) rule.handle = 0;
    CHECK(seen == skeleton.rules());
  }
  CHECK(socket.rules(kV4.chain("hostports")).size() == 5);
  CHECK(socket.table_rules(TableFamily::kInet, "t").empty());
}

TEST_CASE("rules that nft made read back as ours") {
  const node::Fresh node;
  const TextFile file(kSkeleton);
  REQUIRE(run("nft -f " + file.path));
  NfSocket socket;
  for (const Skeleton& skeleton : {kV4, kV6}) {
    std::vector<Rule> seen = socket.table_rules(skeleton.table, "t");
    for (Rule& rule : seen) rule.handle = 0;
    CHECK(seen == skeleton.rules());
  }
}

TEST_CASE("the skeleton may be added again, and on top of nft's") {
  const node::Fresh node;
  const TextFile file(kSkeleton);
  REQUIRE(run("nft -f " + file.path));
  NfSocket socket;
  Batch batch;
  for (const Skeleton& skeleton : {kV4, kV6}) {
    for (const Set& set : skeleton.sets()) batch.add(set);
  }
  CHECK(refusal(socket, batch) == 0);
  CHECK(output_of("nft list ruleset") == kSkeleton);
  batch.add(Set{kV4.set("ports"), {Type::kInetService}, KeyType{Type::kIpv4Address}});
  std::string operation;
  CHECK(refusal(socket, batch, &operation) == EEXIST);
  CHECK(operation == "add map 'ip t ports'");
}

TEST_CASE("the first rules are all of a short chain, and some of a long one") {
  const node::Fresh node;
  NfSocket socket;
  const ChainId chain = kV4.chain("long");
  CHECK(NfSocket::first_rules(chain).empty());  // no table
  load(socket);
  CHECK(NfSocket::first_rules(chain).empty());  // no chain
  for (const char* const name : {"prerouting", "hostports", "guard"}) {
    const std::vector<Rule> all = socket.rules(kV4.chain(name));
    CHECK_FALSE(all.empty());
    CHECK(NfSocket::first_rules(kV4.chain(name)) == all);
  }
  constexpr int kMany = 1000;
  add_rules(socket, chain, kMany);
  const std::vector<Rule> all = socket.rules(chain);
  const std::vector<Rule> first = NfSocket::first_rules(chain);
  REQUIRE(all.size() == kMany);
  CHECK(first.size() > 5);
  REQUIRE(first.size() < kMany);
  CHECK(std::equal(first.begin(), first.end(), all.begin()));
}

TEST_CASE("rules that mention an address are found among others") {
  const node::Fresh node;
  NfSocket socket;
  load(socket);
  const ChainId chain = kV4.chain("long");
  add_rules(socket, chain, 300);
  const std::vector<Rule> all = socket.rules(chain);
  const auto found =
      socket.rules(chain, {.mentions = {{10, 0, 0, 7}, {10, 0, 1, 9}, {9, 9, 9, 9}}});
  REQUIRE(found.size() == 2);
  CHECK(found[0] == all[6]);
  CHECK(found[1] == all[264]);
  CHECK(socket.rules(chain, {.mentions = {{9, 9, 9, 9}}}).empty());
  const std::string name = "hostports";
  CHECK(socket.rules(kV4.chain("prerouting"), {.mentions = {{name.begin(), name.end()}}}).size() ==
        1);
}

static const node::TestFile kTests(__FILE__, [](doctest::Context&) {
  return node::unless("nft list ruleset >/dev/null");
});
