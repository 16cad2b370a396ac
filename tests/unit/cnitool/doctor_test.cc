#include <doctest/doctest.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cnitool/doctor/agents.h"
#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/diagnose.h"
#include "cnitool/doctor/networks.h"
#include "cnitool/doctor/places.h"
#include "cnitool/doctor/pods.h"

using namespace tool::doctor;
using netlink::Cidr;
using netlink::Ip;
using nlohmann::json;

namespace {

std::map<std::string, std::string> settings_of_a_node() {
  return {{"kernel/random/boot_id", "b"},
          {"net/netfilter/nf_conntrack_count", "10"},
          {"net/netfilter/nf_conntrack_max", "1000"}};
}

Node node_with(const std::map<std::string, std::string>& settings) {
  Node node;
  node.now = 1'800'000'000;
  node.sysctl = [settings](const std::string& key) -> std::optional<std::string> {
    const auto it = settings.find(key);
    return it == settings.end() ? std::nullopt : std::optional(it->second);
  };
  return node;
}

Node node_with(const std::string& key, const std::string& value) {
  auto settings = settings_of_a_node();
  settings[key] = value;
  return node_with(settings);
}

void add_network(Node& node, const char* text) {
  node.networks.lists.push_back(cni::list_from(text));
  node.networks.lists.back().file = "/conf/net.conflist";
}

constexpr const char* kBridge =
    R"({"cniVersion": "1.1.0", "name": "net", "plugins": [{"type": "bridge"},
        {"type": "portmap", "capabilities": {"portMappings": true}}]})";

json report_of(const Node& node, bool* ok = nullptr) {
  std::ostringstream out;
  const bool good = report(node, {.out = out, .json = true});
  if (ok != nullptr) *ok = good;
  return json::parse(out.str());
}

cni::AddressRange span(const char* subnet, const char* start, const char* end,
                       const char* gateway) {
  return {*Cidr::parse(subnet), *Ip::parse(start), *Ip::parse(end), *Ip::parse(gateway)};
}

}  // namespace

TEST_CASE(
    "doctor: the table of connections that is nearly full is a warning, a full one an error") {
  CHECK(check_conntrack(node_with(settings_of_a_node())).empty());
  const auto nearly = check_conntrack(node_with("net/netfilter/nf_conntrack_count", "901"));
  REQUIRE(nearly.size() == 1);
  CHECK(nearly[0].level == Level::kWarning);
  CHECK(nearly[0].what == "901 of 1000 connections are tracked");
  CHECK(nearly[0].remedy == "sysctl -w net.netfilter.nf_conntrack_max=2000");
  const auto full = check_conntrack(node_with("net/netfilter/nf_conntrack_count", "1000"));
  REQUIRE(full.size() == 1);
  CHECK(full[0].level == Level::kError);
  CHECK(check_conntrack(node_with("net/netfilter/nf_conntrack_count", "many")).empty());
  CHECK(check_conntrack(node_with(std::map<std::string, std::string>{})).empty());
}

TEST_CASE("doctor: a clock that is behind, attachments of the future, a boot that has no ID") {
  Node node = node_with(settings_of_a_node());
  CHECK(check_clock(node).empty());
  AttachmentState future{.key = {"net", "c", "eth0"}, .netns = {}, .result = {}};
  future.modified = node.now + 100'000;
  node.attachments.push_back(future);
  CHECK(check_clock(node).size() == 1);
  node.now = 1000;
  CHECK(check_clock(node).size() == 2);
  CHECK(check_clock(node_with(std::map<std::string, std::string>{})).size() == 1);
}

TEST_CASE("doctor: kube-proxy without bridge netfilter") {
  Node node = node_with(settings_of_a_node());
  add_network(node, kBridge);
  CHECK(check_bridge_netfilter(node).empty());
  node.firewall.chains.push_back({netlink::nf::TableFamily::kIp, "nat", "KUBE-SERVICES"});
  const auto findings = check_bridge_netfilter(node);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].remedy.starts_with("modprobe br_netfilter"));
}

TEST_CASE("doctor: hostPorts beside a proxy that uses IPVS") {
  const auto node_of = [](const char* link, const char* more) {
    Node node = node_with(settings_of_a_node());
    const std::string list = std::string(R"({"cniVersion": "1.1.0", "name": "net", "plugins": [
        {"type": "bridge"}, {"type": "portmap")") +
                             more + "}]}";
    add_network(node, list.c_str());
    AttachmentState pod{.key = {"net", "c", "eth0"}, .netns = {}, .result = {}};
    pod.is_finished = true;
    pod.liveness = cni::Liveness::kAlive;
    pod.host_ports = {{"", 443, 80, "tcp"}, {"", 53, 53, "udp"}};
    node.attachments.push_back(pod);
    node.links.push_back({.index = 7, .name = link});
    return node;
  };
  constexpr const char* kNft = R"(, "backend": "nftables")";
  CHECK_FALSE(has_services(node_of("ipvs0", kNft)));
  CHECK(has_services(node_of("kube-ipvs0", kNft)));
  const auto findings = check_services(node_of("kube-ipvs0", kNft));
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].level == Level::kWarning);
  CHECK(findings[0].what ==
        "Services on hostPort 443/tcp, hostPort 53/udp lead to pods of network 'net'");
  CHECK(findings[0].remedy ==
        "in /conf/net.conflist remove \"backend\": \"nftables\" from the plugin \"portmap\", then "
        "restart the pods");
  CHECK(check_services(node_of("kube-ipvs0", "")).empty());  // which portmap's CHECK looks at
  Node without = node_of("kube-ipvs0", "");
  without.has_iptables = false;
  REQUIRE(check_services(without).size() == 1);
  CHECK(check_services(without)[0].remedy.starts_with("install"));
  for (const char* const more : {"", kNft, R"(, "backend": "iptables")"}) {
    REQUIRE(check_services(node_of("kube-dummy-if", more)).size() == 1);
    CHECK(check_services(node_of("kube-dummy-if", more))[0].remedy.find("conditionsV4") !=
          std::string::npos);
  }
  for (const char* const link : {"kube-ipvs0", "kube-dummy-if"}) {
    const char* const more =
        R"(, "backend": "nftables", "conditionsV4": ["ip", "saddr", "10.0.0.0/8"])";
    CHECK(check_services(node_of(link, more)).empty());
  }
  Node empty = node_of("kube-ipvs0", kNft);
  empty.attachments.clear();
  CHECK(check_services(empty).empty());
}

TEST_CASE("doctor: a setting of a link with a dot in its name keeps its dot") {
  Node node = node_with("net/ipv4/conf/up.5/rp_filter", "1");
  for (int index : {1, 2}) {
    node.links.push_back({.index = index, .name = index == 1 ? "up.5" : "up1"});
    node.routes.push_back({.dst = *Cidr::parse("0.0.0.0/0"), .link = index});
  }
  const auto findings = check_reverse_path(node);
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].remedy == "sysctl -w net.ipv4.conf.up/5.rp_filter=2");
}

TEST_CASE("doctor: what could not be read makes its checks unknown, and is no error") {
  Node node = node_with(settings_of_a_node());
  add_network(node, kBridge);
  node.unseen.emplace(Source::kFirewall, "permission denied");
  bool ok = false;
  const json answer = report_of(node, &ok);
  CHECK(ok);
  std::size_t unknown = 0;
  for (const json& one : answer.at("findings")) {
    if (one.at("level") != "unknown") continue;
    ++unknown;
    CHECK(one.at("what") == "unreadable: permission denied");
  }
  CHECK(unknown == 5);
}

TEST_CASE("doctor: an error makes the answer no, a warning does not") {
  bool ok = true;
  Node node = node_with("net/netfilter/nf_conntrack_count", "1000");
  add_network(node, kBridge);
  json answer = report_of(node, &ok);
  CHECK_FALSE(ok);
  CHECK(answer.at("ok") == false);
  CHECK(answer.at("errors") == 1);
  node = node_with("net/netfilter/nf_conntrack_count", "950");
  add_network(node, kBridge);
  answer = report_of(node, &ok);
  CHECK(ok);
  CHECK(answer.at("warnings") == 1);
}

TEST_CASE("doctor: what is reported to people says what, why and what to do") {
  Node node = node_with("net/netfilter/nf_conntrack_count", "1000");
  add_network(node, kBridge);
  std::ostringstream out;
  CHECK_FALSE(report(node, {.out = out}));
  const std::string text = out.str();
  CHECK(text.find("error    connections: 1000 of 1000 connections are tracked\n"
                  "         why: new connections") != text.npos);
  CHECK(text.find("\n         remedy: sysctl -w net.netfilter.nf_conntrack_max=2000\n") !=
        text.npos);
  CHECK(text.find("\n1 error, 0 warnings\n") != text.npos);
  CHECK(text.find("\nnot looked at: whether packets arrive; ") != text.npos);
}

TEST_CASE("doctor: STATUS 51 is a warning, any other code an error") {
  Node node = node_with(settings_of_a_node());
  node.complaints.push_back({"net", "a", cni::Error(cni::Code::kLimitedConnectivity, "slow")});
  node.complaints.push_back({"net", "b", cni::Error(cni::Code::kPluginUnavailable, "no", "why")});
  const auto findings = check_status(node);
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].level == Level::kWarning);
  CHECK(findings[1].level == Level::kError);
  CHECK(findings[1].what == "network 'net': no; why");
}

TEST_CASE("doctor: how many addresses there are") {
  CHECK(span("10.0.0.0/24", "10.0.0.1", "10.0.0.254", "10.0.0.1").size() == 253);
  CHECK(span("10.0.0.0/24", "10.0.0.10", "10.0.0.19", "10.0.0.1").size() == 10);
  CHECK(span("fd00::/64", "fd00::1", "fd00::ffff:ffff:ffff:ffff", "fd00::1").size() ==
        0xffff'ffff'ffff'fffeULL);
  CHECK(span("fd00::/48", "fd00::1", "fd00:0:0:ffff::", "fd00::1").size() ==
        0xffff'ffff'ffff'ffffULL);
}

TEST_CASE("doctor: the ranges of a config, with host-local's defaults") {
  const json ipam = {{"subnet", "10.0.0.0/24"},
                     {"ranges",
                      {{{{"subnet", "10.1.0.0/24"}, {"rangeStart", "10.1.0.9"}}},
                       {{{"subnet", "fd00::/64"}, {"gateway", "fd00::5"}}}}}};
  const auto sets = tool::sets_in(cni::Reader(ipam));
  REQUIRE(sets.size() == 3);
  CHECK(sets[0].ranges[0].end.str() == "10.0.0.254");
  CHECK(sets[1].ranges[0].start.str() == "10.1.0.9");
  CHECK(sets[2].ranges[0].gateway.str() == "fd00::5");
  CHECK_THROWS_AS(tool::sets_in(cni::Reader(json{{"subnet", "x"}})), cni::Error);
}

TEST_CASE("doctor: a packet filter that accepts the bridge in both directions, or anything") {
  Node node = node_with(settings_of_a_node());
  add_network(node, kBridge);
  node.pools.push_back(
      {"net", "f", "d", {{{span("10.0.0.0/24", "10.0.0.1", "10.0.0.254", "10.0.0.1")}}}, {}});
  ForwardChain chain{.name = "ip filter FORWARD", .of_iptables = true, .drops = true, .rules = {}};
  const auto level = [&]() -> std::string_view {
    node.firewall.forward = {chain};
    const auto findings = check_forward_policy(node);
    return findings.empty() ? "ok" : str(findings[0].level);
  };
  CHECK(level() == "error");
  using Effect = ForwardRule::Effect;
  chain.rules = {{.in = {"cni0"}, .effect = Effect::kAccept}};
  CHECK(level() == "warning");
  chain.rules.push_back({.out = {"cni*"}, .effect = Effect::kAccept});
  CHECK(level() == "ok");
  chain.rules = {{.effect = Effect::kAccept}};
  CHECK(level() == "ok");
  chain.rules[0].is_narrow = true;
  CHECK(level() == "warning");
  chain.rules = {{.jump = "DOCKER-USER"}};
  CHECK(level() == "warning");  // which was not read
  chain.others["DOCKER-USER"] = {{.effect = Effect::kReturn}};
  CHECK(level() == "error");
  chain.others["DOCKER-USER"] = {{.effect = Effect::kAccept}};
  CHECK(level() == "ok");
  const auto spanned = [](const char* first, const char* last) {
    return std::vector<AddressSpan>{{*Ip::parse(first), *Ip::parse(last)}};
  };
  chain.rules = {{.source = spanned("10.0.0.0", "10.255.255.255"), .effect = Effect::kAccept},
                 {.destination = spanned("10.0.0.0", "10.0.0.255"), .effect = Effect::kAccept}};
  CHECK(level() == "ok");
  chain.rules[1].destination = spanned("10.0.0.1", "10.0.1.9");
  CHECK(level() == "warning");
  chain.drops = false;
  chain.rules = {{.source = spanned("10.0.0.0", "10.0.0.255"), .effect = Effect::kDrop}};
  CHECK(level() == "error");
  chain.rules[0].source = spanned("9.0.0.0", "10.0.1.9");
  CHECK(level() == "error");
  for (const auto& part : {spanned("10.0.0.9", "10.0.1.9"), spanned("10.0.1.0", "10.0.1.9")}) {
    chain.rules[0].source = part;
    CHECK(level() == "ok");
  }
  chain.drops = true;
  chain.rules.clear();
  chain.v4 = false;  // the network has no IPv6
  CHECK(level() == "ok");
}

TEST_CASE("doctor: names are counted where there are many") {
  CHECK(some_of({"a"}) == "a");
  CHECK(some_of({"a", "b", "c"}) == "a, b, c");
  CHECK(some_of({"a", "b", "c", "d", "e"}) == "a, b, c and 2 more");
}

TEST_CASE("doctor: networks that are no way of the node's share its subnets as they like") {
  Node node = node_with(settings_of_a_node());
  add_network(node, R"({"cniVersion": "1.1.0", "name": "lan", "plugins": [{"type": "macvlan"}]})");
  node.links.push_back({.index = 1, .name = "up0"});
  node.routes.push_back({.dst = *Cidr::parse("10.0.0.0/24"), .link = 1});
  const auto lan = span("10.0.0.0/24", "10.0.0.100", "10.0.0.199", "10.0.0.1");
  node.pools.push_back({"lan", "f", "d", {{{lan}}}, {}});
  CHECK(check_routes(node).empty());
  CHECK(check_uplink(node).empty());
  add_network(node, R"({"cniVersion": "1.1.0", "name": "net", "plugins": [
                        {"type": "bridge", "isGateway": true}]})");
  node.pools.push_back({"net", "f", "d", {{{lan}}}, {}});
  CHECK(check_subnets(node).empty());
  REQUIRE(check_routes(node).size() == 1);
  CHECK(check_routes(node)[0].level == Level::kError);
}

TEST_CASE("a dead patchbay-agent matters as much as pods need it") {
  struct Row {
    const char* name;
    DeviceAgent found;
    Level level;
    const char* why;
  };
  const DeviceAgent dead{.socket = "/s", .ledger = "/l", .networks = {"net"}, .failure = ENOENT};
  const auto with = [&dead](auto change) {
    DeviceAgent out = dead;
    change(out);
    return out;
  };
  const Row rows[] = {
      {"never run", dead, Level::kNote, "never run"},
      {"stopped", with([](auto& one) { one.has_run = true; }), Level::kWarning, "no pod gets"},
      {"killed, and its ledger removed", with([](auto& one) { one.failure = ECONNREFUSED; }),
       Level::kError, "ADD of any pod fails"},
      {"required", with([](auto& one) { one.is_required = true; }), Level::kError, "requires"},
      {"promised", with([](auto& one) {
         one.has_run = true;
         one.open = 2;
         one.unclaimed = {1'799'999'000};
       }),
       Level::kError, "2 devices in the ledger that no container has"},
      {"of a removed network", with([](auto& one) {
         one.networks.clear();
         one.has_run = true;
         one.open = 1;
       }),
       Level::kWarning, "no pod gets"}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    Node node = node_with({});
    node.device_agents = {row.found};
    const Findings found = check_agents(node);
    REQUIRE(found.size() == 1);
    CHECK(found[0].level == row.level);
    CHECK(found[0].why.find(row.why) != std::string::npos);
    CHECK(found[0].networks == row.found.networks);
    node.device_agents[0].failure = 0;
    node.device_agents[0].has_run = true;
    const bool is_late = !row.found.unclaimed.empty() && !row.found.networks.empty();
    const Findings answers = check_agents(node);
    REQUIRE(answers.size() == (is_late ? 1 : 0));
    if (is_late) {
      CHECK(answers[0].level == Level::kWarning);
      CHECK(answers[0].what == "1 device promised to a pod, and no pod has claimed it for 1000 s");
    }
    node.device_agents[0].has_run = false;
    CHECK(check_agents(node)[0].what.find("'/l'") != std::string::npos);
  }
}

TEST_CASE("the remedy for a dead patchbay-agent is that of its installation") {
  const auto remedy = [](DeviceAgent one) {
    Node node = node_with({});
    node.device_agents = {std::move(one)};
    return check_agents(node).at(0).remedy;
  };
  CHECK(remedy({.has_run = true, .failure = ECONNREFUSED, .has_unit = true, .has_config = true}) ==
        "systemctl enable --now patchbay-agent.service");
  CHECK(remedy({.has_run = true, .failure = EAGAIN, .has_unit = true, .has_config = true}) ==
        "systemctl restart patchbay-agent.service");
  CHECK(remedy({.has_run = true, .failure = ENOENT, .has_unit = true}).find("write /etc/") == 0);
  CHECK(remedy({.has_run = true, .failure = ENOENT}).find("rollout restart") != std::string::npos);
  CHECK(remedy({.failure = ENOENT}).find("kubectl apply") == 0);
}
