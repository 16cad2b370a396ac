#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/config/common_keys.h"
#include "libcni/config/json.h"
#include "libcni/config/key_schema.h"
#include "libcni/config/keys.h"
#include "libcni/config/names.h"
#include "libcni/daemon/node_name.h"
#include "netlink/types/fd.h"
#include "plugins/devices/agent/pools/pools.h"
#include "plugins/devices/agent/pools/quantity.h"

namespace devices {

namespace {

using cni::cat;
using cni::Reader;
using cni::Type;

constexpr const char* kLinkNamePattern = "^[^/:% \\t\\n\\v\\f\\r\\x00]{1,15}$";

constexpr const char* kBandwidthForm =
    "bits per second, an integer from 1 or a text such as \"10G\"";

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

bool is_bandwidth(const std::string& text) { return quantity_in(text).value_or(0) > 0; }

void read_bandwidth(const Reader& place, Slots& slots) {
  if (place.json().is_number_integer()) {
    slots.bandwidth = place.json().get<std::int64_t>();
  } else {
    slots.bandwidth = quantity_in(place.as_string()).value_or(0);
  }
  if (slots.bandwidth <= 0) place.fail(cat("expected ", kBandwidthForm));
}

constexpr auto kSlotKeys = cni::keys(
    cni::text<&Slots::parent>({.name = "parent",
                               .description = "link of the node that the slots stand on: `master` "
                                              "of the first plugin",
                               .pattern = kLinkNamePattern,
                               .fits = is_slot_parent,
                               .expected = kLinkNameForm}),
    cni::key<&Slots::count>(
        {.name = "count", .description = "number of slots", .minimum = 1, .maximum = kMaxSlots}),
    cni::key<&Slots::first>(
        {.name = "first",
         .description = "number of the first slot, for a second pool with that parent and plugin",
         .default_text = "1",
         .minimum = 1,
         .maximum = 1'000'000}),
    cni::key<&Slots::vlan_ids>({.name = "vlanIds",
                                .description = "instead of `count`, for each slot its `vlanId` of "
                                               "the first plugin",
                                .minimum = 0,
                                .maximum = 4094}),
    cni::custom<read_bandwidth>(
        {.name = "bandwidth",
         .description = "with `dra`: bits per second of the parent, `10G` or an integer. The slots "
                        "are then one device with the capacities `slots` and `bandwidth`, of which "
                        "a claim consumes one and what it asks for, by default an equal share",
         .type = Type::kIntegerOrString,
         .minimum = 1,
         .pattern = "^[0-9]+(\\.[0-9]+)?([kMGTPE]|[KMGTPE]i|[eE][+]?[0-9]+)?$",
         .fits = is_bandwidth,
         .expected = kBandwidthForm}));

constexpr cni::Key kPluginKeys[] = {
    {.name = "type",
     .description = "name of the plugin, which reads the other keys",
     .pattern = "^(?!\\.{1,2}$)[^/\\x00]+$",
     .fits = is_plugin_type,
     .expected = "the name of a plugin's executable, without a slash, not devices",
     .required = true}};

void read_slots(const Reader& place, Pool& pool) {
  cni::read_keys(place, kSlotKeys, pool.slots.emplace_back());
}

void read_plugins(const Reader& place, Pool& pool) { pool.plugins = place.json(); }

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
    cni::custom<read_slots>(
        {.name = "slots",
         .description = "instead of `devices`: links that the first plugin creates for a pod",
         .type = Type::kObject,
         .keys = kSlotKeys}),
    cni::custom<read_plugins>(
        {.name = "plugins",
         .description = "the plugins that attach a device, called in this order. Required with "
                        "`slots`. Default: `host-device` alone",
         .type = Type::kObject,
         .lists = 1,
         .keys = kPluginKeys,
         .expected = "a plugin's config, an object",
         .open = true}),
    cni::key<&Pool::force>({.name = "force",
                            .description = "names of links that are offered though the node uses "
                                           "them; a selector must match, too"}),
    cni::text<&Pool::ifname>(
        {.name = "ifname",
         .description = "name of the container interface, for a pool of which a pod gets one "
                        "device. Default: `net1`, `net2`, ...",
         .pattern = kLinkNamePattern,
         .fits = is_interface_name,
         .expected = kInterfaceNameForm}),
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
                                         "Kubernetes 1.31 and a runtime with CDI"}),
    cni::key<&Pool::device_plugin>(
        {.name = "devicePlugin",
         .description = "with `dra`: the pool is an extended resource of the kubelet's device "
                        "plugin API all the same, and no device of DRA",
         .default_text = "false with `dra`, true without"}));

constexpr auto kDraKeys = cni::keys(
    cni::text<&Dra::driver>({.name = "driver",
                             .description = "name of the driver",
                             .pattern = "^[a-z0-9]([a-z0-9.-]{0,51}[a-z0-9])?$",
                             .fits = is_driver,
                             .expected = "a DNS subdomain of at most 53 characters"}),
    cni::text<&Dra::node>({.name = "node",
                           .description = "name of the node in Kubernetes. Default: NODE_NAME of "
                                          "the environment, else the host's name in lower case",
                           .pattern = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$",
                           .fits = is_domain,
                           .expected = "the name of a node"}),
    cni::key<&Dra::kubeconfig>(
        {.name = "kubeconfig",
         .description = "path of a kubeconfig for the API server. Default: as a pod of the "
                        "cluster, by its service account"}));

void read_dra(const Reader& place, Pools& pools) {
  Dra& dra = pools.dra.emplace();
  cni::read_keys(place, kDraKeys, dra);
  if (dra.node.empty()) dra.node = cni::node_name();
}

constexpr auto kTopKeys = cni::keys(
    cni::text<&Pools::prefix>({.name = "resourcePrefix",
                               .description = "domain of resources that are named without one",
                               .pattern = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$",
                               .fits = is_domain,
                               .expected = "a domain, for example vendor.example"}),
    cni::custom<read_dra>({.name = "dra",
                           .description = "offers the pools by Dynamic Resource Allocation, to "
                                          "which it needs the API server (Kubernetes 1.34)",
                           .type = Type::kObject,
                           .keys = kDraKeys}),
    cni::list<kPoolKeys, &Pools::pools>({.name = "pools",
                                         .description = "pools. A device belongs to the first "
                                                        "that selects it",
                                         .required = true}));

std::vector<cni::Complaint> complaints_of(const nlohmann::json& doc) {
  return cni::complaints({.type = Type::kObject, .keys = kTopKeys}, doc);
}

Pools pools_from(const nlohmann::json& doc) {
  const Reader root(doc);
  const auto wrong = complaints_of(doc);
  if (!wrong.empty()) throw cni::Error(cni::Code::kInvalidConfig, wrong.front().str());
  Pools out;
  cni::read_keys(root, kTopKeys, out);
  check_pools(root, out);
  return out;
}

// For each pool, whatever is wrong with others.
std::vector<AddedKeys> added_in(const nlohmann::json& doc) {
  std::vector<AddedKeys> out;
  if (!doc.is_object()) return out;
  const Reader list = Reader(doc)["pools"];
  if (!list.present() || !list.json().is_array()) return out;
  nlohmann::json alone = doc;
  for (const Reader& one : list.elements()) try {
      alone["pools"] = nlohmann::json::array({one.json()});
      const Pools pools = pools_from(alone);
      if (!one["plugins"].present()) continue;
      out.push_back(
          {cat(one.path(), ".plugins[0]"), nlohmann::json(sample_keys(pools.pools.front()))});
    } catch (const cni::Error&) {
      continue;  // judge_pools() has the error
    }
  return out;
}

}  // namespace

constinit const cni::Manual kPoolsManual{.purpose =
                                             "offers devices of the node to pods, by Dynamic "
                                             "Resource Allocation or as extended resources",
                                         .keys = kTopKeys};

Pools Pools::parse(const std::string& text) {
  return pools_from(cni::parse_json(text, "the config"));
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
    out.complaints = complaints_of(doc);
    out.added = added_in(doc);
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
