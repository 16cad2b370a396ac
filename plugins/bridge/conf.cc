#include "plugins/bridge/conf.h"

#include <bitset>
#include <nlohmann/json.hpp>

#include "plugins/bridge/facts.h"
#include "plugins/common/firewall/ip_masq.h"
#include "plugins/common/link/ipam_keys.h"
#include "plugins/common/link/link_keys.h"

namespace bridge {

namespace {

using cni::cat;
using cni::Reader;
using cni::Type;

constexpr int kMaxVlan = 4094;
using VlanSet = std::bitset<kMaxVlan + 1>;

// An entry of vlanTrunk; 0 is absent.
struct TrunkItem {
  int minimum = 0, maximum = 0, id = 0;
};

int vlan_id(const Reader& place, const char* complaint) {
  const auto id = place.as_int(INT32_MIN, INT32_MAX);
  if (id < 1 || id > kMaxVlan) place.refuse(complaint, cat("expected 1 to ", kMaxVlan));
  return static_cast<int>(id);
}

void read_min_id(const Reader& place, TrunkItem& item) {
  item.minimum = vlan_id(place, "incorrect trunk minID parameter");
}
void read_max_id(const Reader& place, TrunkItem& item) {
  item.maximum = vlan_id(place, "incorrect trunk maxID parameter");
}
void read_id(const Reader& place, TrunkItem& item) {
  item.id = vlan_id(place, "incorrect trunk id parameter");
}

constexpr auto kTrunkKeys =
    cni::keys(cni::custom<read_min_id>({.name = "minID",
                                        .description = "first VLAN of a range, inclusive",
                                        .type = Type::kInteger,
                                        .minimum = 1,
                                        .maximum = kMaxVlan}),
              cni::custom<read_max_id>({.name = "maxID",
                                        .description = "last VLAN of the range, inclusive",
                                        .type = Type::kInteger,
                                        .minimum = 1,
                                        .maximum = kMaxVlan}),
              cni::custom<read_id>({.name = "id",
                                    .description = "a single VLAN; may be combined with a range",
                                    .type = Type::kInteger,
                                    .minimum = 1,
                                    .maximum = kMaxVlan}));

void read_trunk_item(const Reader& place, VlanSet& vlans) {
  if (!place.present() || !place.json().is_object()) {
    place.fail("expected {\"id\": N} or {\"minID\": N, \"maxID\": N}");
  }
  TrunkItem item;
  cni::read_keys(place, kTrunkKeys, item);
  if (item.minimum == 0 && item.maximum != 0) {
    place.refuse("minID and maxID should be configured simultaneously, minID is missing");
  }
  if (item.minimum != 0 && item.maximum == 0) {
    place.refuse("minID and maxID should be configured simultaneously, maxID is missing");
  }
  if (item.minimum > item.maximum) place.refuse("minID is greater than maxID in trunk parameter");
  for (int vlan = item.minimum; vlan != 0 && vlan <= item.maximum; ++vlan) {
    vlans.set(static_cast<std::size_t>(vlan));
  }
  if (item.id != 0) vlans.set(static_cast<std::size_t>(item.id));
}

std::vector<netlink::PortVlan> ranges_of(const VlanSet& vlans) {
  std::vector<netlink::PortVlan> out;
  for (std::uint16_t id = 1; id <= kMaxVlan; ++id) {
    if (!vlans.test(id)) continue;
    if (!out.empty() && out.back().last + 1 == id) {
      out.back().last = id;
    } else {
      out.push_back({.first = id, .last = id});
    }
  }
  return out;
}

void read_vlan(const Reader& place, Conf& conf) {
  const auto id = place.as_int(INT32_MIN, INT32_MAX);
  if (id < 0 || id > kMaxVlan) {
    place.refuse(cat("invalid VLAN ID ", id, " (must be between 0 and ", kMaxVlan, ")"));
  }
  conf.vlan = static_cast<std::uint16_t>(id);
  conf.vlan_filtering = id != 0;
}

void read_trunk(const Reader& place, Conf& conf) {
  VlanSet vlans;
  for (const Reader& item : place.elements()) read_trunk_item(item, vlans);
  vlans.reset(conf.vlan);  // the trunk's "tagged" would take the access VLAN's PVID away
  conf.trunk = ranges_of(vlans);
  conf.vlan_filtering = true;
}

using MacKeys = plugins::MacKeys<Conf>;

constexpr auto kKeys = cni::keys(
    cni::key<&Conf::bridge>(
        {.name = "bridge",
         .description = "name of the bridge. ADD creates it if it does not exist",
         .default_text = "`cni0`",
         .pattern = plugins::kLinkNamePattern,
         .fits = plugins::is_link_name,
         .expected = plugins::kLinkName}),
    cni::key<&Conf::is_gateway>(
        {.name = "isGateway",
         .description =
             "assigns the gateway of each IPAM address to the bridge and enables IP forwarding"}),
    cni::key<&Conf::is_default_gateway>(
        {.name = "isDefaultGateway",
         .description =
             "as `isGateway`; also adds a default route in the pod for each address family "
             "without one from IPAM"}),
    cni::key<&Conf::force_address>(
        {.name = "forceAddress",
         .description = "replaces another address of the bridge that conflicts with the gateway "
                        "address. If false, the conflict is an error that names the address"}),
    plugins::ip_masq_key<Conf>(), plugins::ip_masq_backend_key<Conf>(),
    plugins::ip_masq_except_key<Conf>(),
    plugins::mtu_key<Conf>("MTU in bytes of both interfaces of the veth pair, and of a "
                           "bridge that ADD creates; 0 is the kernel's default"),
    cni::key<&Conf::hairpin_mode>(
        {.name = "hairpinMode",
         .description =
             "enables hairpin mode on the port, so that a pod can reach itself through its "
             "own hostPort or Service address. Not with `promiscMode`"}),
    cni::key<&Conf::promisc_mode>(
        {.name = "promiscMode", .description = "sets the bridge promiscuous. No verb resets it"}),
    cni::custom<read_vlan>({.name = "vlan",
                            .description = "access VLAN; 0 is none. With `isGateway` the gateway "
                                           "address is assigned to the link `BRIDGE.VLAN`",
                            .default_text = "0",
                            .type = Type::kInteger,
                            .maximum = kMaxVlan}),
    cni::custom<read_trunk>({.name = "vlanTrunk",  // after vlan
                             .description = "tagged VLANs of the port",
                             .type = Type::kObject,
                             .lists = 1,
                             .keys = kTrunkKeys}),
    cni::key<&Conf::preserve_default_vlan>(
        {.name = "preserveDefaultVlan",
         .description =
             "keeps the bridge's default VLAN on the port in addition to `vlan` and `vlanTrunk`"}),
    cni::key<&Conf::mac_spoof_check>(
        {.name = "macspoofchk",
         .description =
             "drops frames from the pod whose source MAC address is not that of the "
             "container interface. Addresses inside ARP and ND messages are not checked"}),
    cni::key<&Conf::enable_dad>(
        {.name = "enabledad",
         .description =
             "enables IPv6 duplicate address detection in the pod; ADD waits for its end. "
             "If false, an IPv6 address is usable at once"}),
    cni::key<&Conf::disable_container_interface>(
        {.name = "disableContainerInterface",
         .description = "leaves the container interface down. Not with `ipam`"}),
    cni::key<&Conf::port_isolation>(
        {.name = "portIsolation",
         .description =
             "isolates the port: pods with this key cannot reach each other over the "
             "bridge. A node that forwards still routes between them through the gateway"}),
    plugins::ipam_key<Conf>(), plugins::dns_key<Conf>(), plugins::ignore_default_route_key<Conf>(),
    cni::part<MacKeys::kArgs>({.name = "args", .open = true}),
    cni::part<MacKeys::kRuntime>({.name = "runtimeConfig", .open = true}));  // overrides args

void refuse_contradictions(const Reader& root, const Conf& conf) {
  if (!plugins::is_link_name(conf.bridge)) {
    root["bridge"].fail(cat("expected ", plugins::kLinkName));
  }
  if (conf.hairpin_mode && conf.promisc_mode) {
    root["promiscMode"].refuse("cannot set hairpin mode and promiscuous mode at the same time");
  }
  if (conf.disable_container_interface && !conf.ipam_type.empty()) {
    root["disableContainerInterface"].refuse(
        "cannot use IPAM when DisableContainerInterface flag is set");
  }
  plugins::refuse_without_ipam(root, conf);
  if (conf.ignore_default_route && conf.is_default_gateway) {
    root["ignoreDefaultRoute"].fail("contradicts isDefaultGateway");
  }
  if (conf.vlan != 0 && conf.is_gateway && !plugins::is_link_name(conf.vlan_gateway())) {
    root["bridge"].fail(cat("too long for the VLAN's gateway link '", conf.vlan_gateway(),
                            "', expected at most 15 bytes"));
  }
}

}  // namespace

std::string Conf::vlan_gateway() const { return cat(bridge, ".", vlan); }

constinit const cni::Manual kManual{
    .purpose = "connects pods to a Linux bridge on the node with one veth pair per pod",
    .keys = kKeys,
    .args = plugins::kMacArgs,
    .facts = kFacts};

Conf Conf::parse(const cni::Request& request) {
  const Reader root = request.reader();
  Conf conf;
  conf.mac = plugins::mac_from_args(request.args);
  cni::read_keys(root, kKeys, conf);
  conf.is_gateway = conf.is_gateway || conf.is_default_gateway;
  refuse_contradictions(root, conf);
  const bool is_masqueraded = conf.ip_masq && !conf.ipam_type.empty();
  if (is_masqueraded) plugins::refuse_unknown_backend(root);
  plugins::require_exceptions_fit(root, is_masqueraded, conf.ip_masq_backend);
  return conf;
}

}  // namespace bridge
