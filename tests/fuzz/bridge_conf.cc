// The config of bridge.
#include "plugins/bridge/conf.h"
#include "plugins/common/firewall/ip_masq.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/plugin_conf.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using fuzz::require;
  const auto request = fuzz::request_in(fuzz::text_of(data, size));
  if (!request) return 0;
  plugins::was_masqueraded(request->reader());  // whatever the config
  if (!fuzz::takes(*request, bridge::kPlugin.verbs.validate)) return 0;
  const auto conf = bridge::Conf::parse(*request);
  require(!conf.bridge.empty() && conf.bridge.size() < 16, "a bridge has a name");
  for (std::size_t i = 0; i < conf.trunk.size(); ++i) {
    const auto& vlan = conf.trunk[i];
    require(vlan.first >= 1 && vlan.first <= vlan.last && vlan.last <= 4094, "a VLAN ID is one");
    require(i == 0 || conf.trunk[i - 1].last < vlan.first, "VLANs are in order");
  }
  netlink::RouteRequest message = netlink::add(netlink::Bridge{conf.bridge, {}, conf.mtu, true});
  require(!message.operation.empty(), "the bridge can be asked for");
  netlink::add_vlans({.index = 2, .name = "veth0"}, conf.trunk);
  return 0;
}
