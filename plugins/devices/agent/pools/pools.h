#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "libcni/config/complaints.h"
#include "libcni/config/conf.h"
#include "libcni/config/json_value.h"
#include "libcni/config/key.h"
#include "plugins/devices/agent/pools/dra.h"

/// The config of the agent: the devices of the node that are offered under a name, and the plugins
/// that attach one, of which the first is told which it is.
namespace devices {

/// Globs (fnmatch(3)) on what a device is. Each key that is given must have a glob that matches.
struct Selector {
  std::vector<std::string> pci, auxiliary, vendor, device, driver, name, parent, kind;
};

/// Devices that do not exist before a pod has them: links that the first plugin creates.
struct Slots {
  std::string parent = {};  ///< link of the node, "master" of that plugin; may be empty
  unsigned count = 0, first = 1;
  std::vector<int> vlan_ids = {};  ///< one for each slot, instead of count
  std::int64_t bandwidth = 0;      ///< bit/s of all slots, then one device of DRA; 0: each is one

  /// The last part of the ids: the VLAN IDs, or else first, first + 1, ...
  std::vector<unsigned> numbers() const;
};

struct Pool {
  std::string resource = {};  ///< with its domain
  std::vector<Selector> devices = {};
  std::vector<Slots> slots = {};  ///< at most one
  /// A list of objects with a type: the configs that attach a device, in the order in which they
  /// are called. keys_added() of the first one are missing.
  cni::JsonValue plugins = {};
  std::vector<std::string> force = {};
  std::string ifname = {};              ///< of the container interface; empty: the next number
  std::vector<std::string> nodes = {};  ///< paths below /dev
  bool rdma = false;
  bool cdi = false;
  bool device_plugin = true;  ///< offered by the kubelet's device plugin API, else by DRA

  /// The type of the first plugin.
  std::string type() const;
  /// "eth1:macvlan:3"; "tap:3" without a parent.
  std::string slot_id(unsigned number) const;
};

struct Pools {
  std::string prefix = {};  ///< the domain of resources without one
  std::vector<Pool> pools = {};
  std::optional<Dra> dra = {};  ///< empty: nothing of it is started

  /// Reads the config. \throws cni::Error that names the key, its value and what was expected.
  static Pools parse(const std::string& text);
  /// \throws cni::Error(kIoFailure) where the file does not exist, as parse().
  static Pools load(const std::string& file);
};

/// The keys of the config.
extern constinit const cni::Manual kPoolsManual;
/// Its JSON Schema.
nlohmann::ordered_json pools_schema();

/// The keys that the agent adds to a plugin's config, for the first device of a pool: with them the
/// config can be judged by the plugin.
struct AddedKeys {
  std::string path;  ///< of the plugin: "pools[0].plugins[0]"
  cni::JsonValue keys;
};

/// Faults of a config, as a plugin's --validate prints them.
struct PoolsVerdict {
  std::vector<cni::Complaint> complaints;  ///< by the table of keys
  std::string refusal;                     ///< the first error of the parser; empty: none
  unsigned code = 0;                       ///< its code
  std::vector<AddedKeys> added;            ///< of each pool that is right and lists plugins
};
PoolsVerdict judge_pools(const std::string& text);

// Values of the config.

/// Whether it may be the name of an extended resource: "vendor.example/nic"
/// (IsExtendedResourceName() of Kubernetes: a qualified name, with a domain that is not
/// kubernetes.io's, and no prefix of quotas).
bool is_resource_name(const std::string& name);

inline constexpr unsigned kMaxSlots = 1000;  ///< of a pool

inline constexpr const char* kLinkNameForm =
    "a name of a link: 1 to 15 bytes without slash, colon, percent sign and white space";
inline constexpr const char* kInterfaceNameForm =
    "a name of a link, other than lo and eth0, which the pod has already, and all and default: 1 "
    "to 15 bytes without slash, colon, percent sign, white space and control characters";
inline constexpr const char* kNodeForm = "a path below /dev/, without ..";
inline constexpr const char* kResourceForm =
    "the name of an extended resource, for example vendor.example/nic, not of kubernetes.io";

/// A name for an interface in a pod. Its own, which a runtime of Kubernetes calls eth0, is taken,
/// and so are those of folders of sysctls, which the kernel refuses.
bool is_interface_name(const std::string& text);
/// A link's name of which ids can be made.
bool is_slot_parent(const std::string& text);
bool is_device_node(const std::string& text);
bool is_domain(const std::string& text);
/// The same as is_resource_name(), or a name without domain.
bool is_resource_or_short(const std::string& text);
/// Whether a delegate may have this type: the name of a file, and not that of the plugin devices.
bool is_plugin_type(const std::string& text);

/// Completes names of resources, and looks at what keys and pools demand of each other.
/// \throws cni::Error(kInvalidConfig) naming the key.
void check_pools(const cni::Reader& root, Pools& pools);

/// What a plugin of a pool must not have, whoever wrote it. \param is_first its keys that name the
/// device are refused, too. \throws cni::Error(kInvalidConfig) naming the key.
void check_plugin(const cni::Reader& plugin, const Pool& pool, bool is_first);

/// Names of a device that exists: a PCI address, an auxiliary device's name or a link's.
enum class SelectBy : std::uint8_t { kPci, kAuxiliary, kName };

/// Whether the first plugin can be told the name of a link. host-device can; others have the key
/// "deviceID" for a PCI address or an auxiliary device's name (device-info specification of NPWG,
/// 1.1.0; the SR-IOV plugin).
bool takes_link_names(const Pool& pool);

/// The keys that the first plugin gets besides: for a device that exists, and for a slot.
/// \throws cni::Error(kInvalidConfig) for the name of a link that it cannot be told.
nlohmann::ordered_json keys_added(const Pool& pool, SelectBy by, const std::string& value);
nlohmann::ordered_json keys_added(const Pool& pool, unsigned slot);

/// Those of a first device, whose ID is that of no hardware: with them a plugin can judge the
/// config.
nlohmann::ordered_json sample_keys(const Pool& pool);

/// The plugins of the pool, the first one with the keys added: the list for the ledger.
nlohmann::ordered_json plugins_with(const Pool& pool, const nlohmann::ordered_json& added);

}  // namespace devices
