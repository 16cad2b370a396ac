#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/config/common_keys.h"
#include "libcni/config/json.h"
#include "libcni/config/key_schema.h"
#include "libcni/config/keys.h"
#include "libcni/config/names.h"
#include "netlink/types/fd.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/devices/agent/pools/rules.h"

namespace devices {

namespace {

using cni::cat;
using cni::Reader;
using cni::Type;

constexpr std::string_view kKinds[] = {"macvlan", "ipvlan", "vlan", "tap"};
constexpr std::string_view kModes[] = {"bridge", "private", "vepa", "passthru",
                                       "source", "l2",      "l3",   "l3s"};
constexpr std::string_view kFlags[] = {"bridge", "private", "vepa"};
constexpr std::string_view kProtocols[] = {"802.1Q", "802.1ad"};

// Whether a value is of the key's type; a delegate looks closer.
void check_value(const Reader& place, const cni::Key& key) {
  if (key.lists != 0) {
    cni::Key element = key;
    --element.lists;
    for (const Reader& one : place.elements()) check_value(one, element);
    return;
  }
  switch (key.type) {
    case Type::kBool:
      place.as_bool();
      break;
    case Type::kInteger:
      cni::read_integer(place, key);
      break;
    case Type::kEnum:
      cni::read_enum(place, key);
      break;
    case Type::kMac:
      if (!is_unicast_mac(place.as_string())) place.fail(cat("expected ", cni::kMacForm));
      break;
    case Type::kObject:
      if (!place.json().is_object()) place.fail("expected an object");
      break;
    default:
      place.as_string();
  }
}

// A key that a delegate gets as it stands: a member of the object that a field holds.
template <auto Field>
constexpr cni::KeyOf<cni::ConfOf<Field>> passed(cni::Key key) {
  key.read = [](const Reader& place, const cni::Key& of, void* conf) {
    check_value(place, of);
    (*cni::field_of<Field>(conf))[of.name] = place.json();
  };
  return {key};
}

constexpr auto kSelectorKeys = cni::keys(
    cni::key<&Selector::pci>({.name = "pci", .description = "PCI address: `0000:03:00.*`"}),
    cni::key<&Selector::auxiliary>(
        {.name = "auxiliary", .description = "name of an auxiliary device: `mlx5_core.sf.*`"}),
    cni::key<&Selector::vendor>(
        {.name = "vendor", .description = "PCI vendor, four hexadecimal digits: `8086`"}),
    cni::key<&Selector::device>(
        {.name = "device", .description = "PCI device, four hexadecimal digits: `154c`"}),
    cni::key<&Selector::driver>(
        {.name = "driver", .description = "driver of the device: `iavf`, `vfio-pci`"}),
    cni::key<&Selector::name>({.name = "name", .description = "name of the link: `ens5f*`"}),
    cni::key<&Selector::parent>(
        {.name = "parent",
         .description = "of a virtual function: name of a link, or PCI address, of its physical "
                        "function; of a virtual link: name of the link that it stands on"}),
    cni::key<&Selector::kind>(
        {.name = "kind", .description = "kind of a virtual link: `dummy`, `veth`"}));

constexpr auto kSlotKeys = cni::keys(
    cni::key<&Slots::kind>({.name = "kind",
                            .description = "the plugin that creates the link",
                            .enumeration = kKinds,
                            .required = true}),
    cni::text<&Slots::parent>({.name = "parent",
                               .description = "link of the node that the slots stand on; only of "
                                              "kind `tap` it may be absent",
                               .pattern = "^[^/:% \\t\\n\\v\\f\\r\\x00]{1,15}$",
                               .fits = is_slot_parent,
                               .expected = kLinkNameForm}),
    cni::key<&Slots::count>({.name = "count",
                             .description = "number of slots. Not for kind `vlan`",
                             .minimum = 1,
                             .maximum = kMaxSlots}),
    cni::key<&Slots::first>(
        {.name = "first",
         .description = "number of the first slot, for a second pool with that parent and kind",
         .default_text = "1",
         .minimum = 1,
         .maximum = 1'000'000}),
    cni::key<&Slots::vlan_id>({.name = "vlanId",
                               .description = "VLAN ID of the only slot, for kind `vlan`",
                               .minimum = 0,
                               .maximum = 4094}),
    cni::key<&Slots::vlan_ids>({.name = "vlanIds",
                                .description = "VLAN IDs, one for each slot, for kind `vlan`",
                                .minimum = 0,
                                .maximum = 4094}),
    passed<&Slots::keys>({.name = "mode",
                          .description = "`mode` of macvlan or ipvlan",
                          .type = Type::kEnum,
                          .enumeration = kModes}),
    passed<&Slots::keys>({.name = "bcqueuelen",
                          .description = "`bcqueuelen` of macvlan",
                          .type = Type::kInteger,
                          .maximum = 4'294'967'295}),
    passed<&Slots::keys>({.name = "flags",
                          .description = "`flags` of ipvlan",
                          .type = Type::kEnum,
                          .enumeration = kFlags}),
    passed<&Slots::keys>({.name = "protocol",
                          .description = "`protocol` of vlan",
                          .type = Type::kEnum,
                          .enumeration = kProtocols}),
    passed<&Slots::keys>({.name = "owner",
                          .description = "`owner` of tap",
                          .type = Type::kInteger,
                          .maximum = 4'294'967'294}),
    passed<&Slots::keys>({.name = "group",
                          .description = "`group` of tap",
                          .type = Type::kInteger,
                          .maximum = 4'294'967'294}),
    passed<&Slots::keys>(
        {.name = "multiQueue", .description = "`multiQueue` of tap", .type = Type::kBool}),
    passed<&Slots::keys>({.name = "selinuxContext", .description = "`selinuxContext` of tap"}),
    passed<&Slots::keys>({.name = "bridge", .description = "`bridge` of tap"}));

/// Only for the table: what `ipam` must have.
struct Ipam {
  std::string type;
};
constexpr auto kIpamKeys =
    cni::keys(cni::key<&Ipam::type>({.name = "type", .description = "name of the IPAM plugin"}));

constexpr auto kAttachKeys = cni::keys(
    cni::text<&Attach::ifname>(
        {.name = "ifname",
         .description = "name of the container interface, for a pool of which a pod gets one "
                        "device. Default: `net1`, `net2`, ...",
         .pattern = "^[^/:% \\t\\n\\v\\f\\r\\x00]{1,15}$",
         .fits = is_interface_name,
         .expected = kLinkNameForm}),
    passed<&Attach::keys>({.name = "ipam",
                           .description = "`type` names the IPAM plugin, which reads the other "
                                          "keys. Without it the interface gets no address",
                           .type = Type::kObject,
                           .keys = kIpamKeys,
                           .open = true,
                           .folded = true}),
    passed<&Attach::keys>({.name = "dns",
                           .description = "`nameservers`, `domain`, `search`, `options`",
                           .type = Type::kObject,
                           .keys = cni::kDnsKeys,
                           .folded = true}),
    passed<&Attach::keys>({.name = "dnsFromIPAM",
                           .description = "the DNS of the result is the IPAM plugin's",
                           .type = Type::kBool}),
    passed<&Attach::keys>({.name = "ignoreDefaultRoute",
                           .description = "leaves the IPAM plugin's default routes out",
                           .type = Type::kBool}),
    passed<&Attach::keys>(
        {.name = "enabledad",
         .description = "looks for duplicates of the addresses. Of kind ipvlan, vlan and tap: not "
                        "allowed",
         .type = Type::kBool}),
    passed<&Attach::keys>({.name = "mtu",
                           .description = "MTU in bytes of the container interface",
                           .type = Type::kInteger,
                           .minimum = 68,
                           .maximum = 65535,
                           .or_zero = true}),
    passed<&Attach::keys>({.name = "mac",
                           .description = "MAC address of the container interface, for a pool of "
                                          "one device. Not for kind `ipvlan`",
                           .type = Type::kMac}),
    passed<&Attach::keys>(
        {.name = "promisc", .description = "promiscuous mode", .type = Type::kBool}),
    passed<&Attach::keys>(
        {.name = "allmulti", .description = "all-multicast mode", .type = Type::kBool}),
    passed<&Attach::keys>({.name = "txQLen",
                           .description = "length of the transmit queue in packets",
                           .type = Type::kInteger,
                           .maximum = 2'147'483'647}),
    passed<&Attach::keys>({.name = "sysctl",
                           .description = "settings below `/proc/sys/net` of the pod and their "
                                          "values, as in tuning",
                           .type = Type::kObject,
                           .open = true}));

void read_slots(const Reader& place, Pool& pool) {
  cni::read_keys(place, kSlotKeys, pool.slots.emplace_back());
  check_slots(place, pool.slots.back());
}

void read_nodes(const Reader& place, Pool& pool) {
  for (const Reader& one : place.elements()) {
    if (!is_device_node(one.as_string())) one.fail(cat("expected ", kNodeForm));
    pool.nodes.push_back(one.as_string());
  }
}

constexpr auto kPoolKeys = cni::keys(
    cni::text<&Pool::resource>(
        {.name = "resource",
         .description = "name of the extended resource: `vendor.example/nic`",
         .pattern = "^([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$",
         .fits = is_resource_or_short,
         .expected = kResourceForm,
         .required = true}),
    cni::list<kSelectorKeys, &Pool::devices>(
        {.name = "devices",
         .description = "selectors: a device belongs to the pool if one of them matches. In each, "
                        "every key is a list of globs of which one must match"}),
    cni::custom<read_slots>({.name = "slots",
                             .description = "links that are created for a pod, instead of "
                                            "`devices`; also keys of the plugin of their kind",
                             .type = Type::kObject,
                             .keys = kSlotKeys}),
    cni::key<&Pool::force>({.name = "force",
                            .description = "names of links that are offered though the node uses "
                                           "them; a selector must match, too"}),
    cni::part<kAttachKeys, &Pool::attach>(
        {.name = "attach",
         .description = "how a pod gets a device: keys of host-device, or of the plugin of the "
                        "slots, and of tuning"}),
    cni::custom<read_nodes>({.name = "nodes",
                             .description = "character devices that a container gets besides, for "
                                            "example `/dev/vhost-net`",
                             .lists = 1,
                             .pattern = "^/dev/(?!(.*/)?\\.\\.(/|$))[^\\n\\x00]*[^/\\n\\x00]$",
                             .fits = is_device_node,
                             .expected = kNodeForm}),
    cni::key<&Pool::rdma>({.name = "rdma",
                           .description = "a container gets the device's nodes below "
                                          "`/dev/infiniband`, too"}),
    cni::key<&Pool::cdi>({.name = "cdi",
                          .description = "a container gets character devices by CDI names. Needs "
                                         "Kubernetes 1.31 and a runtime with CDI"}));

constexpr auto kTopKeys = cni::keys(
    cni::text<&Pools::prefix>({.name = "resourcePrefix",
                               .description = "domain of resources that are named without one",
                               .pattern = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$",
                               .fits = is_domain,
                               .expected = "a domain, for example vendor.example"}),
    cni::list<kPoolKeys, &Pools::pools>({.name = "pools",
                                         .description = "pools. A device belongs to the first "
                                                        "that selects it",
                                         .required = true}));

}  // namespace

constinit const cni::Manual kPoolsManual{
    .purpose = "offers devices of the node to pods, as extended resources", .keys = kTopKeys};

Pools Pools::parse(const std::string& text) {
  const nlohmann::json doc = cni::parse_json(text, "the config");
  const Reader root(doc);
  const auto wrong = cni::complaints({.type = Type::kObject, .keys = kTopKeys}, doc);
  if (!wrong.empty()) throw cni::Error(cni::Code::kInvalidConfig, wrong.front().str());
  Pools out;
  cni::read_keys(root, kTopKeys, out);
  check_pools(root, out);
  return out;
}

Pools Pools::load(const std::string& file) {
  const auto text = netlink::read_regular_file(file);
  if (!text) {
    throw cni::Error(cni::Code::kIoFailure, cat("read '", file, "': no such file or directory"),
                     "patchbay-agent --schema prints the schema of the config");
  }
  return cni::during(cat("read '", file, "'"), [&] { return parse(*text); });
}

nlohmann::ordered_json pools_schema() {
  return cni::schema_of_object(
      {.title = "patchbay-agent",
       .description = cat("Config of patchbay-agent, patchbay ", PATCHBAY_VERSION, ": ",
                          cni::plain(kPoolsManual.purpose))},
      {.type = Type::kObject, .keys = kTopKeys});
}

PoolsVerdict judge_pools(const std::string& text) {
  PoolsVerdict out;
  const nlohmann::json doc = cni::try_parse_json(text);
  if (!doc.is_discarded()) {
    out.complaints = cni::complaints({.type = Type::kObject, .keys = kTopKeys}, doc);
  }
  try {
    Pools::parse(text);
  } catch (const cni::Error& e) {
    out.refusal = e.what();
    out.code = static_cast<unsigned>(e.code());
  }
  return out;
}

}  // namespace devices
