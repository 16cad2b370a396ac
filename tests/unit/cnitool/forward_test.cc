#include "cnitool/doctor/forward.h"

#include <doctest/doctest.h>

#include "cnitool/doctor/read_rule.h"

using namespace tool::doctor;
using netlink::Cidr;

namespace {

constexpr const char* kChains =
    "*filter\n:FORWARD DROP [0:0]\n:OTHERS - [0:0]\n:CNI-FORWARD - [0:0]\n";

// FORWARD of iptables with these rules.
ForwardChain chain_of(const std::string& rules) {
  const cni::SavedTable table = cni::decode_saved(kChains + rules + "COMMIT\n");
  ForwardChain out{.name = "filter FORWARD", .of_iptables = true, .drops = true};
  for (const cni::SavedRule& one : table.rules) {
    auto& into = one.chain == "FORWARD" ? out.rules : out.others[one.chain];
    into.push_back(read_saved_rule(one, table));
  }
  return out;
}

const Traffic kOut{
    .in = {"cni0"}, .out = {"eth0"}, .source = Cidr::parse("10.22.0.0/24"), .is_from_pods = true};
const Traffic kReplies{
    .in = {"eth0"}, .out = {"cni0"}, .destination = Cidr::parse("10.22.0.0/24"), .is_reply = true};
const Traffic kHostPorts{
    .in = {"eth0"}, .out = {"cni0"}, .destination = Cidr::parse("10.22.0.0/24"), .is_dnat = true};

// "accepted", "dropped" or "policy", with "?" where it is unclear.
std::string fate(const std::string& rules, const Traffic& traffic) {
  const ForwardChain chain = chain_of(rules);
  const Fate found = fate_in(chain, traffic);
  const std::string kind = found.kind == Fate::Kind::kAccepted  ? "accepted"
                           : found.kind == Fate::Kind::kDropped ? "dropped"
                                                                : "policy";
  return kind + (found.is_unclear ? "?" : "");
}

}  // namespace

TEST_CASE("doctor: what a chain does with what pods send, with replies and with hostPorts") {
  struct Row {
    const char* rules;
    std::string out, replies, ports;
  };
  const Row rows[] = {
      {"-A FORWARD -i docker0 -j ACCEPT\n", "policy", "policy", "policy"},
      {"-A FORWARD -s 10.244.0.0/16 -j ACCEPT\n", "policy", "policy", "policy"},
      {"-A FORWARD -d 10.244.0.0/16 -p tcp -j ACCEPT\n", "policy", "policy", "policy"},
      {"-A FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT\n", "policy", "policy", "policy"},
      {"-A FORWARD -m mark --mark 0x7 -j ACCEPT\n", "policy?", "policy?", "policy?"},
      {"-A FORWARD -m set --match-set x src -j ACCEPT\n", "policy?", "policy?", "policy?"},
      {"-A FORWARD -p tcp -m tcp --dport 22 -j ACCEPT\n", "policy", "policy", "policy"},
      {"-A FORWARD -i cni0 -p tcp -m tcp --dport 443 -j ACCEPT\n", "policy?", "policy", "policy"},
      {"-A FORWARD -s 10.22.0.9/32 -j ACCEPT\n", "policy?", "policy", "policy"},
      {"-A FORWARD -p icmp -m icmp --icmp-type 8 -j ACCEPT\n", "policy", "policy", "policy"},
      {"-A FORWARD ! -i eth1 -j ACCEPT\n", "accepted", "accepted", "accepted"},
      {"-A FORWARD ! -i eth+ -j ACCEPT\n", "accepted", "policy", "policy"},
      {"-A FORWARD ! -s 10.0.0.0/8 -j ACCEPT\n", "policy", "policy", "policy"},
      {"-A FORWARD -i cni0 -o eth0 -j ACCEPT\n", "accepted", "policy", "policy"},
      {"-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n", "policy", "accepted",
       "policy"},
      {"-A FORWARD -m conntrack --ctstate DNAT -j ACCEPT\n", "policy", "policy", "accepted"},
      {"-A FORWARD -m conntrack ! --ctstate NEW -j ACCEPT\n", "policy", "accepted", "policy"},
      {"-A FORWARD -m state --state NEW -j OTHERS\n-A OTHERS -i cni0 -j ACCEPT\n", "accepted",
       "policy", "policy"},
      {"-A FORWARD -s 10.22.0.0/24 -j REJECT --reject-with icmp-port-unreachable\n", "dropped",
       "policy", "policy"},
      {"-A FORWARD -i cni0 -p tcp -j DROP\n", "dropped", "policy", "policy"},
      {"-A FORWARD -i cni0 -p udp -j DROP\n", "policy", "policy", "policy"},
      {"-A FORWARD -d 169.254.169.254/32 -j DROP\n-A FORWARD -j ACCEPT\n", "accepted", "accepted",
       "accepted"},
      {"-A FORWARD -p tcp -m tcp --tcp-flags SYN,ACK SYN -j REJECT\n-A FORWARD -j ACCEPT\n",
       "accepted", "accepted", "accepted"},
      {"-A FORWARD -i docker0 -j OTHERS\n-A OTHERS -j ACCEPT\n", "policy", "policy", "policy"},
      {"-A FORWARD -j OTHERS\n-A OTHERS -s 10.22.0.9/32 -j RETURN\n-A OTHERS -i cni0 -j DROP\n",
       "dropped?", "policy", "policy"},
      {"-A FORWARD -j NFQUEUE --queue-num 1\n", "policy?", "policy?", "policy?"}};
  for (const Row& row : rows) {
    CAPTURE(row.rules);
    CHECK(fate(row.rules, kOut) == row.out);
    CHECK(fate(row.rules, kReplies) == row.replies);
    CHECK(fate(row.rules, kHostPorts) == row.ports);
  }
}

TEST_CASE("doctor: of several uplinks one is not all, and of unknown ones nobody knows") {
  Traffic traffic = kOut;
  traffic.out = {"eth0", "eth1"};
  CHECK(fate("-A FORWARD -o eth0 -j ACCEPT\n", traffic) == "policy?");
  CHECK(fate("-A FORWARD -o eth+ -j ACCEPT\n", traffic) == "accepted");
  traffic.out.clear();
  CHECK(fate("-A FORWARD -o eth0 -j ACCEPT\n", traffic) == "policy?");
}

TEST_CASE("doctor: commands that insert rules keep their order") {
  const ForwardRule rule{.insertion = "iptables -I FORWARD", .place = 3};
  CHECK(rule.insertion_of(0) == "iptables -I FORWARD 3");
  CHECK(rule.insertion_of(1) == "iptables -I FORWARD 4");
  const ForwardRule by_handle{.insertion = "nft insert rule inet a b position 7"};
  CHECK(by_handle.insertion_of(1) == "nft insert rule inet a b position 7");
}
