#include <doctest/doctest.h>

#include <string>

#include "cnitool/doctor/checks.h"
#include "netlink/route/bridge_vlan.h"
#include "netlink/route/link.h"

using namespace tool::doctor;

namespace {

void add_list(Node& node, const char* text) {
  node.networks.lists.push_back(cni::list_from(text));
  node.networks.lists.back().file =
      "/etc/cni/net.d/" + node.networks.lists.back().name + ".conflist";
}

}  // namespace

TEST_CASE("segments: networks of one bridge share a subnet, but no address") {
  for (const auto& [last, is_shared] : {std::pair("10.0.0.99", false), {"10.0.0.100", true}}) {
    Node node;
    const auto text = [](const char* name, const std::string& keys) {
      return std::string(R"({"cniVersion": "1.1.0", "name": ")") + name +
             R"(", "plugins": [{"type": "bridge", "isGateway": true, "ipam": {"type": "host-local",
                "subnet": "10.0.0.0/24", )" +
             keys + "}}]}";
    };
    add_list(node, text("a", R"("rangeEnd": ")" + std::string(last) + '"').c_str());
    add_list(node, text("b", R"("rangeStart": "10.0.0.100")").c_str());
    REQUIRE(check_subnets(node).size() == (is_shared ? 1 : 0));
    if (is_shared) CHECK(check_subnets(node)[0].why == "two pods can get the same address");
  }
}

TEST_CASE("segments: a VLAN of a bridge is that of the uplink, if the port has it") {
  Node node;
  add_list(node,
           R"({"cniVersion": "1.1.0", "name": "a", "plugins": [{"type": "vlan", "master": "up0",
      "vlanId": 10, "ipam": {"type": "cluster-pool", "subnet": "10.0.0.0/24"}}]})");
  add_list(node, R"({"cniVersion": "1.1.0", "name": "b", "plugins": [{"type": "bridge", "vlan": 10,
      "bridge": "br0", "ipam": {"type": "cluster-pool", "subnet": "10.0.0.0/24"}}]})");
  node.links.push_back({.index = 1, .name = "up0", .master = 2});
  node.links.push_back(
      {.index = 2, .name = "br0", .kind = "bridge", .vlan_filtering = true, .default_pvid = 1});
  CHECK(check_subnets(node).empty());  // as where the kernel says nothing of VLANs
  node.port_vlans[1] = {{1, 1, true, true}, {11, 20, false, false}};
  CHECK(check_subnets(node).empty());
  node.port_vlans[1] = {{1, 1, true, true}, {10, 20, false, false}};
  CHECK(check_subnets(node).size() == 1);
  node.port_vlans[1] = {{10, 10, true, true}};  // the wire has it without a tag
  CHECK(check_subnets(node).empty());
  node.networks.lists.erase(node.networks.lists.begin());
  add_list(node,
           R"({"cniVersion": "1.1.0", "name": "a", "plugins": [{"type": "macvlan", "master": "up0",
      "ipam": {"type": "cluster-pool", "subnet": "10.0.0.0/24"}}]})");
  CHECK(check_subnets(node).size() == 1);
}
