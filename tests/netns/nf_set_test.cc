// In a network namespace of its own: sets, maps and the rules that ask them, as the kernel keeps
// them and as nft sees them. Needs root; exits with 77 where it may not unshare.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <regex>
#include <string>
#include <vector>

#include "netlink/nf/match.h"
#include "netlink/nf/set.h"
#include "netlink/nf/socket.h"
#include "netlink/types/error.h"

using namespace netlink;
using namespace netlink::nf;

namespace {

bool enter_own_namespace() { return ::unshare(CLONE_NEWNET) == 0; }

// A fresh namespace per test: the last one is gone with its rules.
struct Node {
  Node() { REQUIRE(enter_own_namespace()); }
};

std::string output_of(const std::string& command) {
  std::string out;
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 4096> buffer;
  while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    out.append(buffer.data(), size);
  }
  ::pclose(pipe);
  return out;
}

bool run(const std::string& command) { return std::system(command.c_str()) == 0; }

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A file that is gone with its owner.
struct TextFile {
  explicit TextFile(const std::string& text) {
    const int fd = ::mkstemp(path.data());
    REQUIRE(fd >= 0);
    REQUIRE(::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    ::close(fd);
  }
  ~TextFile() { ::unlink(path.c_str()); }
  std::string path = "/tmp/nf_set_test.XXXXXX";
};

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

Bytes host_order(std::uint32_t value) {
  Bytes out(sizeof value);
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

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

// Nobody's but the rules of nft's debugging output: "FAMILY TABLE CHAIN\n", "  [ ... ]\n", ...,
// "\n".
std::string rules_in(const std::string& debug_output) {
  std::string out;
  const std::regex rule("ip6? t [a-z]+\n(  \\[ [^\n]*\n)+\n");
  for (std::sregex_iterator at(debug_output.begin(), debug_output.end(), rule), end; at != end;
       ++at) {
    out += at->str();
  }
  return out;
}

Bytes port_key(std::uint16_t port) {
  return concatenate({value_of_protocol(6), value_of_port(port)});
}

Element port_element(std::uint16_t port, const char* address = "10.1.0.2") {
  return {port_key(port), concatenate({value_of(*Ip::parse(address)), value_of_port(80)}),
          cat("of port ", port)};
}

std::vector<Element> port_elements(int count, const char* address = "10.1.0.2") {
  std::vector<Element> out;
  for (int i = 0; i < count; ++i) {
    out.push_back(port_element(static_cast<std::uint16_t>(10000 + i), address));
  }
  return out;
}

Batch one(const char* set, std::vector<Element> elements, bool exclusive = false) {
  Batch batch;
  if (exclusive) {
    batch.add_new(kV4.set(set), std::move(elements));
  } else {
    batch.add(kV4.set(set), std::move(elements));
  }
  return batch;
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
  const Node node;
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
  const Node node;
  const TextFile file(kSkeleton);
  std::string ours;
  for (const Skeleton& skeleton : {kV4, kV6}) {
    for (const Rule& rule : skeleton.rules()) ours += text(rule);
  }
  CHECK(rules_in(output_of("nft --debug=netlink -c -f " + file.path)) == ours);
}

TEST_CASE("rules read back as they were written") {
  const Node node;
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
  const Node node;
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
  const Node node;
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

TEST_CASE("nft shows elements with their comments and takes them back") {
  const Node node;
  NfSocket socket;
  load(socket);
  Batch batch;
  batch.add(kV4.set("ports"), {port_element(8080)});
  batch.add(kV4.set("hairpin"),
            {{concatenate({value_of_ifname("cni0"), value_of_protocol(132), value_of_port(53)}),
              {},
              "x"}});
  batch.add(kV4.set("sources"), {{value_of(*Ip::parse("192.0.2.1")), {}, ""}});
  batch.add(kV6.set("ports_hostip"),
            {{concatenate(
                  {value_of(*Ip::parse("2001:db8::1")), value_of_protocol(17), value_of_port(53)}),
              concatenate({value_of(*Ip::parse("fd00::2")), value_of_port(5353)}), "dns"}});
  batch.add(kV6.set("hairpin_hostip"),
            {{concatenate({value_of(*Ip::parse("2001:db8::1")), value_of_ifname("a234567890b2345"),
                           value_of_protocol(6), value_of_port(65535)})}});
  socket.commit(batch);
  const std::string listed = output_of("nft list ruleset");
  CHECK(contains(listed, R"({ tcp . 8080 comment "of port 8080" : 10.1.0.2 . 80 })"));
  CHECK(contains(listed, R"({ "cni0" . sctp . 53 comment "x" })"));
  CHECK(contains(listed, "elements = { 192.0.2.1 }"));
  CHECK(contains(listed, R"({ 2001:db8::1 . udp . 53 comment "dns" : fd00::2 . 5353 })"));
  CHECK(contains(listed, R"({ 2001:db8::1 . "a234567890b2345" . tcp . 65535 })"));
  const std::string json = listed_json();
  const auto before = socket.all_elements(kV4.set("ports"));
  const TextFile file(listed);
  REQUIRE(run("nft -c -f " + file.path + " && nft flush ruleset && nft -f " + file.path));
  CHECK(output_of("nft list ruleset") == listed);
  CHECK(listed_json() == json);
  CHECK(socket.all_elements(kV4.set("ports")) == before);
}

TEST_CASE("elements are found by their keys, in the order of the question") {
  const Node node;
  NfSocket socket;
  load(socket);
  socket.commit(one("ports", port_elements(100)));
  std::vector<Bytes> keys;
  for (int i = 0; i < 100; ++i) {
    keys.push_back(port_key(static_cast<std::uint16_t>(10099 - i)));
    keys.push_back(port_key(static_cast<std::uint16_t>(20000 + i)));
  }
  const auto found = socket.elements(kV4.set("ports"), keys);
  REQUIRE(found.size() == 200);
  for (int i = 0; i < 100; ++i) {
    const auto at = static_cast<std::size_t>(2 * i);
    CHECK(found[at] == port_element(static_cast<std::uint16_t>(10099 - i)));
    CHECK(!found[at + 1]);
  }
  CHECK(socket.elements(kV4.set("ports"), {}).empty());
}

TEST_CASE("thousands of elements fit into a batch") {
  const Node node;
  NfSocket socket;
  load(socket);
  for (const int count : {200, 5000, 20000}) {
    Batch batch = one("ports", port_elements(count), true);
    batch.add(Rule{kV4.chain("hostports"), {Counter{}}});
    socket.commit(batch);
    auto seen = socket.all_elements(kV4.set("ports"));
    CHECK(seen.size() == static_cast<std::size_t>(count));
    std::sort(seen.begin(), seen.end(),
              [](const Element& a, const Element& b) { return a.key < b.key; });
    CHECK(seen == port_elements(count));
    Batch removal;
    std::vector<Bytes> keys;
    for (const Element& element : seen) keys.push_back(element.key);
    removal.remove(kV4.set("ports"), keys);
    socket.commit(removal);
    CHECK(socket.all_elements(kV4.set("ports")).empty());
  }
}

TEST_CASE("a key that is there is refused with other data, or when it must be new") {
  const Node node;
  NfSocket socket;
  load(socket);
  socket.commit(one("ports", {port_element(80)}));
  CHECK(refusal(socket, one("ports", {port_element(80)})) == 0);
  CHECK(refusal(socket, one("ports", {port_element(80)}, true)) == EEXIST);
  CHECK(refusal(socket, one("ports", {port_element(80, "10.1.0.3")})) == EEXIST);
  // Its comment stays, too.
  Element mine = port_element(80);
  mine.comment = "another's";
  socket.commit(one("ports", {mine}));
  CHECK(socket.elements(kV4.set("ports"), {port_key(80)}).front() == port_element(80));
  Batch takeover;
  takeover.remove(kV4.set("ports"), {port_key(80)});
  takeover.add_new(kV4.set("ports"), {mine});
  socket.commit(takeover);
  CHECK(socket.elements(kV4.set("ports"), {port_key(80)}).front() == mine);
}

TEST_CASE("a refusal names the set, however many messages there are, and changes nothing") {
  const Node node;
  NfSocket socket;
  load(socket);
  socket.commit(one("ports", {port_element(14999)}));
  Batch batch = one("masq_all", {{port_key(1)}, {port_key(2)}});
  batch.add_new(kV4.set("ports"), port_elements(5000));
  batch.add(kV4.set("masq_all"), {{port_key(3)}});
  batch.remove(kV4.set("masq_all"), {port_key(4)});
  std::string operation;
  CHECK(refusal(socket, batch, &operation) == EEXIST);
  CHECK(operation == "add elements 'ip t ports'");
  CHECK(socket.all_elements(kV4.set("masq_all")).empty());
  CHECK(socket.all_elements(kV4.set("ports")).size() == 1);
  Batch removal;
  removal.remove(kV4.set("masq_all"), {port_key(4)});
  CHECK(refusal(socket, removal, &operation) == ENOENT);
  CHECK(operation == "delete elements 'ip t masq_all'");
}

TEST_CASE("what is missing is an answer") {
  const Node node;
  NfSocket socket;
  CHECK(!socket.has_table(TableFamily::kIp, "t"));
  CHECK(socket.tables(TableFamily::kIp).empty());
  CHECK(socket.all_elements(kV4.set("ports")).empty());
  CHECK(!socket.elements(kV4.set("ports"), {port_key(80)}).front());
  CHECK(socket.table_rules(TableFamily::kIp, "t").empty());
  load(socket);
  CHECK(socket.has_table(TableFamily::kIp, "t"));
  CHECK(socket.has_table(TableFamily::kIp6, "t"));
  CHECK(!socket.has_table(TableFamily::kInet, "t"));
  CHECK(socket.tables(TableFamily::kIp) == std::vector<std::string>{"t"});
  CHECK(socket.all_elements(kV4.set("nothing")).empty());
  CHECK(!socket.elements(kV4.set("nothing"), {port_key(80)}).front());
  CHECK(!socket.elements(kV4.set("ports"), {port_key(80)}).front());
}

TEST_CASE("a table goes with all that is in it") {
  const Node node;
  NfSocket socket;
  load(socket);
  socket.commit(one("ports", port_elements(10)));
  Batch batch;
  batch.remove(DeleteTable{TableFamily::kIp, "t"});
  socket.commit(batch);
  CHECK(socket.tables(TableFamily::kIp).empty());
  CHECK(socket.tables(TableFamily::kIp6) == std::vector<std::string>{"t"});
  std::string operation;
  CHECK(refusal(socket, batch, &operation) == ENOENT);
  CHECK(operation == "delete table 'ip t'");
}

TEST_CASE("a set, its elements and a rule that asks it come in one batch") {
  const Node node;
  NfSocket socket;
  Batch batch;
  const SetId id{TableFamily::kIp, "u", "blocked"};
  batch.add(Table{TableFamily::kIp, "u"});
  batch.add(Set{id, {Type::kIpv4Address}});
  batch.add(id, {{value_of(*Ip::parse("192.0.2.1"))}});
  batch.add(id, {});
  batch.add(Chain{{TableFamily::kIp, "u", "c"}});
  batch.add(Rule{{TableFamily::kIp, "u", "c"},
                 {Payload{NFT_PAYLOAD_NETWORK_HEADER, 12, 4}, Lookup{"blocked"}, drop()}});
  socket.commit(batch);
  CHECK(contains(output_of("nft list ruleset"), "ip saddr @blocked drop"));
  CHECK(socket.all_elements(id).size() == 1);
}

int main(int argc, char** argv) {
  if (!enter_own_namespace() || !run("nft list ruleset >/dev/null")) {
    std::fprintf(stderr, "SKIP: needs root, nft and a kernel with nf_tables\n");
    return 77;
  }
  doctest::Context context(argc, argv);
  return context.run();
}
