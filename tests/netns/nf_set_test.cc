// In a network namespace of its own: sets, maps and their elements, as the kernel keeps them and as
// nft sees them. Needs root; exits with 77 where it may not unshare.
#include <linux/netfilter/nf_tables.h>

#include <algorithm>
#include <cerrno>
#include <regex>
#include <string>
#include <vector>

#include "netlink/nf/match.h"
#include "netlink/nf/set.h"
#include "netlink/nf/socket.h"
#include "netlink/types/error.h"
#include "tests/netns/node.h"

using namespace netlink;
using namespace netlink::nf;
using node::contains;
using node::output_of;
using node::run;
using node::TextFile;

namespace {

std::string listed_json() {
  return std::regex_replace(output_of("nft -j list ruleset"), std::regex(", \"handle\": [0-9]+"),
                            "");
}

SetId v4_set(const char* name) { return {TableFamily::kIp, "t", name}; }
SetId v6_set(const char* name) { return {TableFamily::kIp6, "t", name}; }

void load(NfSocket& socket) {
  const KeyType port{Type::kInetProto, Type::kInetService};
  Batch batch;
  batch.add(Table{TableFamily::kIp, "t"}).add(Table{TableFamily::kIp6, "t"});
  batch.add(Set{v4_set("ports"), port, KeyType{Type::kIpv4Address, Type::kInetService}});
  batch.add(Set{v4_set("masq_all"), port});
  batch.add(Set{v4_set("hairpin"), {Type::kIfname, Type::kInetProto, Type::kInetService}});
  batch.add(Set{v4_set("sources"), {Type::kIpv4Address}});
  batch.add(Set{v6_set("ports_hostip"),
                {Type::kIpv6Address, Type::kInetProto, Type::kInetService},
                KeyType{Type::kIpv6Address, Type::kInetService}});
  batch.add(Set{v6_set("hairpin_hostip"),
                {Type::kIpv6Address, Type::kIfname, Type::kInetProto, Type::kInetService}});
  batch.add(Chain{{TableFamily::kIp, "t", "hostports"}});
  socket.commit(batch);
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
    batch.add_new(v4_set(set), std::move(elements));
  } else {
    batch.add(v4_set(set), std::move(elements));
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

TEST_CASE("nft shows elements with their comments and takes them back") {
  const node::Fresh node;
  NfSocket socket;
  load(socket);
  Batch batch;
  batch.add(v4_set("ports"), {port_element(8080)});
  batch.add(v4_set("hairpin"),
            {{concatenate({value_of_ifname("cni0"), value_of_protocol(132), value_of_port(53)}),
              {},
              "x"}});
  batch.add(v4_set("sources"), {{value_of(*Ip::parse("192.0.2.1")), {}, ""}});
  batch.add(v6_set("ports_hostip"),
            {{concatenate(
                  {value_of(*Ip::parse("2001:db8::1")), value_of_protocol(17), value_of_port(53)}),
              concatenate({value_of(*Ip::parse("fd00::2")), value_of_port(5353)}), "dns"}});
  batch.add(v6_set("hairpin_hostip"),
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
  const auto before = socket.all_elements(v4_set("ports"));
  const TextFile file(listed);
  REQUIRE(run("nft -c -f " + file.path + " && nft flush ruleset && nft -f " + file.path));
  CHECK(output_of("nft list ruleset") == listed);
  CHECK(listed_json() == json);
  CHECK(socket.all_elements(v4_set("ports")) == before);
}

TEST_CASE("elements are found by their keys, in the order of the question") {
  const node::Fresh node;
  NfSocket socket;
  load(socket);
  socket.commit(one("ports", port_elements(100)));
  std::vector<Bytes> keys;
  for (int i = 0; i < 100; ++i) {
    keys.push_back(port_key(static_cast<std::uint16_t>(10099 - i)));
    keys.push_back(port_key(static_cast<std::uint16_t>(20000 + i)));
  }
  const auto found = socket.elements(v4_set("ports"), keys);
  REQUIRE(found.size() == 200);
  for (int i = 0; i < 100; ++i) {
    const auto at = static_cast<std::size_t>(2 * i);
    CHECK(found[at] == port_element(static_cast<std::uint16_t>(10099 - i)));
    CHECK(!found[at + 1]);
  }
  CHECK(socket.elements(v4_set("ports"), {}).empty());
}

TEST_CASE("a catch-all of another program is not listed, and stays") {
  const node::Fresh node;
  NfSocket socket;
  load(socket);
  REQUIRE(
      run("nft 'add element ip t masq_all { * comment \"of port 8080\" }; "
          "add element ip t ports { * : 10.9.9.9 . 9 }'"));
  CHECK(socket.all_elements(v4_set("masq_all")).empty());
  socket.commit(one("ports", {port_element(8080)}, true));
  CHECK(socket.all_elements(v4_set("ports")) == std::vector{port_element(8080)});
  CHECK_FALSE(socket.elements(v4_set("ports"), {port_key(8081)}).front());
  Batch removal;
  removal.remove(v4_set("ports"), {port_key(8080)});
  socket.commit(removal);
  CHECK(socket.all_elements(v4_set("ports")).empty());
  CHECK(contains(output_of("nft list map ip t ports"), "* : 10.9.9.9 . 9"));
}

TEST_CASE("thousands of elements fit into a batch") {
  const node::Fresh node;
  NfSocket socket;
  load(socket);
  for (const int count : {200, 5000, 20000}) {
    Batch batch = one("ports", port_elements(count), true);
    batch.add(Rule{{TableFamily::kIp, "t", "hostports"}, {Counter{}}});
    socket.commit(batch);
    auto seen = socket.all_elements(v4_set("ports"));
    CHECK(seen.size() == static_cast<std::size_t>(count));
    std::sort(seen.begin(), seen.end(),
              [](const Element& a, const Element& b) { return a.key < b.key; });
    CHECK(seen == port_elements(count));
    Batch removal;
    std::vector<Bytes> keys;
    for (const Element& element : seen) keys.push_back(element.key);
    removal.remove(v4_set("ports"), keys);
    socket.commit(removal);
    CHECK(socket.all_elements(v4_set("ports")).empty());
  }
}

TEST_CASE("a key that is there is refused with other data, or when it must be new") {
  const node::Fresh node;
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
  CHECK(socket.elements(v4_set("ports"), {port_key(80)}).front() == port_element(80));
  Batch takeover;
  takeover.remove(v4_set("ports"), {port_key(80)});
  takeover.add_new(v4_set("ports"), {mine});
  socket.commit(takeover);
  CHECK(socket.elements(v4_set("ports"), {port_key(80)}).front() == mine);
}

TEST_CASE("a refusal names the set, however many messages there are, and changes nothing") {
  const node::Fresh node;
  NfSocket socket;
  load(socket);
  socket.commit(one("ports", {port_element(14999)}));
  Batch batch = one("masq_all", {{port_key(1)}, {port_key(2)}});
  batch.add_new(v4_set("ports"), port_elements(5000));
  batch.add(v4_set("masq_all"), {{port_key(3)}});
  batch.remove(v4_set("masq_all"), {port_key(4)});
  std::string operation;
  CHECK(refusal(socket, batch, &operation) == EEXIST);
  CHECK(operation == "add elements 'ip t ports'");
  CHECK(socket.all_elements(v4_set("masq_all")).empty());
  CHECK(socket.all_elements(v4_set("ports")).size() == 1);
  Batch removal;
  removal.remove(v4_set("masq_all"), {port_key(4)});
  CHECK(refusal(socket, removal, &operation) == ENOENT);
  CHECK(operation == "delete elements 'ip t masq_all'");
}

TEST_CASE("what is missing is an answer") {
  const node::Fresh node;
  NfSocket socket;
  CHECK(!socket.has_table(TableFamily::kIp, "t"));
  CHECK(socket.tables(TableFamily::kIp).empty());
  CHECK(socket.all_elements(v4_set("ports")).empty());
  CHECK(!socket.elements(v4_set("ports"), {port_key(80)}).front());
  CHECK(socket.table_rules(TableFamily::kIp, "t").empty());
  load(socket);
  CHECK(socket.has_table(TableFamily::kIp, "t"));
  CHECK(socket.has_table(TableFamily::kIp6, "t"));
  CHECK(!socket.has_table(TableFamily::kInet, "t"));
  CHECK(socket.tables(TableFamily::kIp) == std::vector<std::string>{"t"});
  CHECK(socket.all_elements(v4_set("nothing")).empty());
  CHECK(!socket.elements(v4_set("nothing"), {port_key(80)}).front());
  CHECK(!socket.elements(v4_set("ports"), {port_key(80)}).front());
}

TEST_CASE("a table goes with all that is in it") {
  const node::Fresh node;
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
  const node::Fresh node;
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

TEST_CASE("a rule is added at the end, or first") {
  const node::Fresh node;
  NfSocket socket;
  const ChainId chain{TableFamily::kIp, "t", "c"};
  Batch batch;
  batch.add(Table{TableFamily::kIp, "t"}).add(Chain{chain});
  batch.add(Rule{.chain = chain, .exprs = {accept()}});
  batch.add(Rule{.chain = chain, .exprs = {drop()}});
  batch.add(Rule{.chain = chain, .exprs = {return_verdict()}, .first = true});
  socket.commit(batch);
  std::vector<Exprs> seen;
  for (const Rule& rule : socket.rules(chain)) seen.push_back(rule.exprs);
  CHECK(seen == std::vector<Exprs>{{return_verdict()}, {accept()}, {drop()}});
}

TEST_CASE("nft shows a verdict map and takes it back") {
  const node::Fresh node;
  NfSocket socket;
  const SetId pods{TableFamily::kInet, "t", "pods"};
  const ChainId from{TableFamily::kInet, "t", "from"};
  const ChainId other{TableFamily::kInet, "t", "other"};
  const Bytes key = value_of(*Ip::parse("192.0.2.1"));
  Batch batch;
  batch.add(Table{TableFamily::kInet, "t"}).add(Chain{from}).add(Chain{other});
  batch.add(Set{pods, {Type::kIpv4Address}, KeyType{Type::kVerdict}});
  Exprs exprs = l3_protocol(Family::kIpv4);
  exprs.emplace_back(Payload{NFT_PAYLOAD_NETWORK_HEADER, 12, 4});
  exprs.emplace_back(Lookup{.set = "pods", .dreg = NFT_REG_VERDICT});
  batch.add(Rule{from, exprs});
  batch.add_new(pods, {{key, {}, "of a pod", go_to("other")}});
  socket.commit(batch);
  const std::string listed = output_of("nft list ruleset");
  CHECK(contains(listed, "type ipv4_addr : verdict\n"));
  CHECK(contains(listed, R"(elements = { 192.0.2.1 comment "of a pod" : goto other })"));
  CHECK(contains(listed, "\t\tip saddr vmap @pods\n"));
  const TextFile file(listed);
  REQUIRE(run("nft flush ruleset && nft -f " + file.path));
  CHECK(output_of("nft list ruleset") == listed);
  CHECK(socket.elements(pods, {key}).front() == Element{key, {}, "of a pod", go_to("other")});
  CHECK(socket.rules(from).front().exprs == exprs);
  CHECK(socket.uses_of({other}).front() == 1);  // the element
  Batch removal;
  removal.remove(other);
  CHECK(refusal(socket, removal) == EBUSY);
  removal = {};
  removal.remove(pods, {key}).remove(other);
  CHECK(refusal(socket, removal) == 0);
  CHECK(socket.has_chains({from, other, from}) == std::vector{true, false, true});
  using Uses = std::vector<std::optional<std::uint32_t>>;
  CHECK(socket.uses_of({from, other}) == Uses{1, std::nullopt});
}

static const node::TestFile kTests(__FILE__, [](doctest::Context&) {
  return node::unless("nft list ruleset >/dev/null");
});
