#include <doctest/doctest.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "cnitool/graph_formats.h"
#include "cnitool/graph_view.h"

using netlink::Cidr;
using netlink::Link;
using tool::Graph;
using tool::KernelState;

namespace {

netlink::Mac mac(unsigned char last) {
  netlink::Mac out;
  out.bytes = {2, 0, 0, 0, 0, last};
  return out;
}

KernelState node() {
  KernelState out;
  out.links = {
      {.index = 1, .name = "lo", .loopback = true},
      {.index = 2, .name = "up0", .mac = mac(2), .up = true},
      {.index = 3, .name = "cni0", .kind = "bridge", .mac = mac(3), .mtu = 1500, .up = true},
      {.index = 4, .name = "veth4", .kind = "veth", .mac = mac(4), .master = 3},
      {.index = 5, .name = "tap5", .kind = "tun", .mac = mac(5), .master = 3}};
  out.addresses = {{.link = 2, .cidr = *Cidr::parse("192.0.2.1/24")},
                   {.link = 3, .cidr = *Cidr::parse("10.1.2.1/24")},
                   {.link = 3, .cidr = *Cidr::parse("fe80::1/64")}};
  out.routes = {
      {.dst = *Cidr::parse("0.0.0.0/0"), .gateway = netlink::Ip::parse("192.0.2.254"), .link = 2},
      {.dst = *Cidr::parse("10.0.0.0/8"), .link = 3}};
  return out;
}

cni::CachedAttachment attachment(const std::string& id, unsigned char host_mac = 4) {
  return {
      .key = {"net", id, "eth0"},
      .netns = "/run/netns/" + id,
      .args = {},
      .capabilities = nlohmann::json::parse(R"({"portMappings": [
              {"hostPort": 8080, "containerPort": 80, "protocol": "tcp"},
              {"hostPort": 53, "containerPort": 53, "protocol": "udp", "hostIP": "fd00::1"},
              {"containerPort": 1}],
              "bandwidth": {"ingressRate": 8000000, "egressRate": 1500}})"),
      .config = R"({"cniVersion": "1.0.0", "name": "net", "plugins": [
              {"type": "bridge", "isGateway": true, "ipMasq": true},
              {"type": "firewall", "ingressPolicy": "isolated"}]})",
      .result = nlohmann::json::parse(tool::cat(
          R"({"cniVersion": "1.0.0", "interfaces": [{"name": "cni0", "mac": "02:00:00:00:00:03"},
                  {"name": "veth4", "mac": ")",
          mac(host_mac).str(),
          R"("}, {"name": "eth0", "mac": "02:00:00:00:00:99", "sandbox": "/run/netns/)", id,
          R"("}], "ips": [{"address": "10.1.2.2/24", "interface": 2}]})"))};
}

tool::Seen alive(const cni::CachedAttachment&) { return {"alive"}; }
tool::Seen gone(const cni::CachedAttachment&) { return {"no namespace"}; }

std::string text_of(const Graph& graph) { return graph_text(graph, {.out = std::cout}); }

bool has(const std::string& text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("a graph has what the cache knows and the kernel has") {
  const Graph graph = tool::graph_of({attachment("c1")}, node(), alive);
  REQUIRE(graph.uplinks.size() == 1);
  CHECK(graph.uplinks[0].name == "up0");
  CHECK(graph.uplinks[0].addresses == std::vector<std::string>{"192.0.2.1/24"});
  CHECK(graph.uplinks[0].gateways == std::vector<std::string>{"192.0.2.254"});
  REQUIRE(graph.bridges.size() == 1);
  const auto& bridge = graph.bridges[0];
  CHECK(bridge.is_there);
  CHECK(bridge.masquerades);
  CHECK(bridge.addresses == std::vector<std::string>{"10.1.2.1/24"});  // not the link-local one
  REQUIRE(bridge.pods.size() == 1);
  const auto& pod = bridge.pods[0];
  CHECK(pod.host_end == "veth4");
  CHECK(pod.bridge == "cni0");
  CHECK(pod.mac == "02:00:00:00:00:99");
  CHECK(pod.host_ports == std::vector<std::string>{"8080 -> 80/tcp", "[fd00::1]:53 -> 53/udp"});
  CHECK(pod.limits == "in 8 Mbit/s, out 1.5 kbit/s");
  CHECK(pod.policy == "isolated");
  CHECK(has(text_of(graph), "policy isolated"));
  CHECK(has(graph_svg(graph), "policy isolated"));
  REQUIRE(bridge.foreign.size() == 1);
  CHECK(bridge.foreign[0].name == "tap5");
}

TEST_CASE("further interfaces of a pod are shown in every format, with their own addresses") {
  cni::CachedAttachment one = attachment("c1");
  nlohmann::json& result = *one.result;
  result["interfaces"].push_back(
      {{"name", "net1"}, {"mac", "02:00:00:00:00:98"}, {"sandbox", "/run/netns/c1"}});
  result["ips"].push_back({{"address", "10.9.0.2/24"}, {"interface", 3}});
  const auto look = [](const cni::CachedAttachment&) {
    return tool::Seen{.state = "alive", .kinds = {{"net1", "macvlan on eth1"}}};
  };
  const Graph graph = tool::graph_of({one}, node(), look);
  const auto& pod = graph.bridges[0].pods[0];
  CHECK(pod.addresses == std::vector<std::string>{"10.1.2.2/24"});
  REQUIRE(pod.further.size() == 1);
  CHECK(pod.further[0].addresses == std::vector<std::string>{"10.9.0.2/24"});
  for (const std::string& text : {text_of(graph), graph_dot(graph), graph_svg(graph)}) {
    for (const char* const part : {"net1 02:00:00:00:00:98", "macvlan on eth1", "10.9.0.2/24"}) {
      CHECK(has(text, part));
    }
  }
  const auto found = json_of(graph)["bridges"][0]["pods"][0]["furtherInterfaces"];
  CHECK(found[0]["kind"] == "macvlan on eth1");
  CHECK(found[0]["addresses"][0] == "10.9.0.2/24");
}

TEST_CASE("a pod's VRF is shown in every format") {
  const auto look = [](const cni::CachedAttachment&) {
    return tool::Seen{.state = "alive", .vrf = "blue, table 1"};
  };
  const Graph graph = tool::graph_of({attachment("c1")}, node(), look);
  CHECK(graph.bridges[0].pods[0].vrf == "blue, table 1");
  for (const std::string& text : {text_of(graph), graph_dot(graph), graph_svg(graph)}) {
    CHECK(has(text, "VRF blue, table 1"));
  }
  CHECK(json_of(graph)["bridges"][0]["pods"][0]["vrf"] == "blue, table 1");
}

TEST_CASE("a pod's DHCP lease is shown in every format, with its server and the time left") {
  const auto look = [](const cni::CachedAttachment& one) {
    const tool::DhcpLease lease{
        .key = one.key, .address = "10.1.2.2/24", .server = "10.1.2.1", .expire = 3512};
    return tool::Seen{.state = "alive", .lease = lease};
  };
  const Graph graph = tool::graph_of({attachment("c1")}, node(), look);
  for (const std::string& text : {text_of(graph), graph_dot(graph), graph_svg(graph)}) {
    CHECK(has(text, "lease of 10.1.2.1, ends in 3512 s"));
  }
  const auto found = json_of(graph)["bridges"][0]["pods"][0]["lease"];
  CHECK(found["server"] == "10.1.2.1");
  CHECK(found["expire"] == 3512);
  CHECK(tool::describe({.key = {}, .address = "10.1.2.2/24", .server = "10.1.2.1"}) ==
        "of 10.1.2.1, does not end");
  CHECK(has(tool::describe({.key = {}}), "was lost"));
}

TEST_CASE("a bridge that is not there, a port of none and a dead pod are shown as that") {
  KernelState without = node();
  std::erase_if(without.links, [](const Link& link) { return link.name == "cni0"; });
  for (Link& link : without.links) link.master = 0;
  const Graph graph = tool::graph_of({attachment("c1")}, without, gone);
  REQUIRE(graph.bridges.size() == 1);
  CHECK_FALSE(graph.bridges[0].is_there);
  const std::string text = text_of(graph);
  CHECK(has(text, "bridge cni0  does not exist"));
  CHECK(has(text, "at veth4, which is no bridge's port"));
  CHECK(has(text, "no namespace"));
  CHECK(has(graph_svg(graph), "class=\"gone\""));
}

TEST_CASE("a link that has the name of the pod's, but is another, is foreign") {
  const Graph graph = tool::graph_of({attachment("c1", 77)}, node(), alive);
  REQUIRE(graph.bridges.size() == 1);
  CHECK(graph.bridges[0].pods[0].host_end.empty());
  CHECK(graph.bridges[0].foreign.size() == 2);
}

TEST_CASE("what is broken in the cache is left out, and what has no bridge has a place") {
  auto odd = attachment("c2");
  odd.config = "not JSON";
  odd.capabilities = nlohmann::json::parse(R"({"portMappings": {"a": 1}, "bandwidth": [2]})");
  odd.result = nlohmann::json::parse(R"({"cniVersion": "9.9.9"})");
  const Graph graph = tool::graph_of({odd}, {}, alive);
  CHECK(graph.bridges.empty());
  REQUIRE(graph.others.size() == 1);
  CHECK(has(text_of(graph), "network net"));
  CHECK(json_of(graph)["others"][0]["containerID"] == "c2");
}

TEST_CASE("an interface without veth says its type, and what it stands on or is a port of") {
  auto one = attachment("c3");
  one.config = R"({"cniVersion": "1.0.0", "name": "net", "plugins": [
      {"type": "macvlan"}, {"type": "bandwidth"}]})";
  one.result = nlohmann::json::parse(
      R"({"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "/run/netns/c3"}]})");
  const auto on_uplink = [](const cni::CachedAttachment&) { return tool::Seen{"alive", "up0"}; };
  const Graph graph = tool::graph_of({one}, node(), on_uplink);
  REQUIRE(graph.others.size() == 1);
  CHECK(has(text_of(graph), "macvlan on up0\n"));
  CHECK(has(graph_svg(graph), ">macvlan on up0<"));
  CHECK(has(graph_dot(graph), R"("link:up0" -- "network:net";)"));
  CHECK(has(graph_dot(graph), R"("network:net" -- "pod:c3" [label="eth0"];)"));
  CHECK(json_of(graph)["others"][0]["master"] == "up0");

  one.config = R"({"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "tap"}]})";
  const auto in_bridge = [](const cni::CachedAttachment&) {
    return tool::Seen{.state = "alive", .port_of = "br1"};
  };
  CHECK(has(text_of(tool::graph_of({one}, node(), in_bridge)), "tap, port of br1 in the pod\n"));
  CHECK(has(text_of(tool::graph_of({one}, node(), gone)), "tap\n"));
}

TEST_CASE("a long container ID is told by twelve digits, a name is kept") {
  tool::GraphPod pod;
  pod.container_id = std::string(64, 'a');
  CHECK(pod.label() == std::string(12, 'a'));
  pod.container_id = "a-name-of-somebody's-choice";
  CHECK(pod.label() == pod.container_id);
}

TEST_CASE("ports are put side by side as far as there is room") {
  CHECK(tool::wrapped("ports", {}, 20).empty());
  CHECK(tool::wrapped("ports", {"1", "2"}, 20) == std::vector<std::string>{"ports 1, 2"});
  CHECK(tool::wrapped("ports", {"8080 -> 80/tcp", "8081 -> 81/tcp"}, 20) ==
        std::vector<std::string>{"ports 8080 -> 80/tcp,", "      8081 -> 81/tcp"});
}

TEST_CASE("texts of others end neither DOT's quotes nor SVG's elements") {
  auto odd = attachment("c1");
  odd.netns = "/run/\"</text><script>&\\\n";
  const Graph graph = tool::graph_of({odd}, node(), alive);
  const std::string svg = graph_svg(graph);
  CHECK_FALSE(has(svg, "<script>"));
  CHECK(has(svg, "&quot;&lt;/text&gt;&lt;script&gt;&amp;\\ "));
  CHECK(has(graph_dot(graph), R"(/run/\"</text><script>&\\ )"));
}

TEST_CASE("a long text in a picture is cut in its middle, with all of its letters whole") {
  auto odd = attachment("c1");
  odd.netns = "/run/";
  for (int i = 0; i < 60; ++i) odd.netns += "é";
  const std::string svg = graph_svg(tool::graph_of({odd}, node(), alive));
  CHECK(has(svg, "…"));
  CHECK(has(svg, "ééé"));
  CHECK_FALSE(has(svg, odd.netns));
}

TEST_CASE("an empty node has a picture too") {
  CHECK(has(tool::graph_svg({}), "no pod is known"));
  CHECK(text_of({}) == "node\n");
  CHECK(has(tool::graph_dot({}), "graph {"));
}

TEST_CASE("a pod with several interfaces is one box, with a line to each of their networks") {
  auto second = attachment("c1");
  second.key = {"edge", "c1", "net1"};
  second.config = R"({"cniVersion": "1.0.0", "name": "edge", "plugins": [
      {"type": "ptp", "ipMasq": true}]})";
  second.result = nlohmann::json::parse(
      R"({"cniVersion": "1.0.0", "interfaces": [{"name": "net1", "sandbox": "/run/netns/c1"}]})");
  const Graph graph = tool::graph_of({attachment("c1"), second}, node(), alive);
  const tool::View view = tool::view_of(graph);
  REQUIRE(view.segments.size() == 2);
  CHECK(view.segments[1].id == "network:edge");
  CHECK(view.segments[1].lines == std::vector<std::string>{"ptp"});
  CHECK(view.segments[1].uplinks == std::vector<std::string>{"up0"});
  CHECK(view.segments[1].masquerades);
  REQUIRE(view.pods.size() == 1);
  CHECK(view.pods[0].interfaces.size() == 2);
  const std::string dot = graph_dot(graph);
  CHECK(has(dot, R"("link:cni0" -- "pod:c1" [label="eth0"];)"));
  CHECK(has(dot, R"("network:edge" -- "pod:c1" [label="net1"];)"));
  CHECK(has(text_of(graph), "also net1 (edge)"));
}
