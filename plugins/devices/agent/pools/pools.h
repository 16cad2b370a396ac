#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "libcni/config/complaints.h"
#include "libcni/config/json_value.h"
#include "libcni/config/key.h"

/// The config of the agent: which devices of the node are offered under which name, and how a pod
/// gets them.
namespace devices {

/// Globs (fnmatch(3)) on what a device is. It matches if each key that is given has a glob that
/// does.
struct Selector {
  std::vector<std::string> pci, auxiliary, vendor, device, driver, name, parent, kind;
};

/// Devices that do not exist before a pod has them: links that the first plugin creates.
struct Slots {
  std::string parent = {};  ///< link of the node, "master" of that plugin; may be empty
  unsigned count = 0, first = 1;
  std::vector<int> vlan_ids = {};  ///< one for each slot, instead of count

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

  /// The type of the first plugin.
  std::string type() const;
  /// "eth1:macvlan:3"; "tap:3" without a parent.
  std::string slot_id(unsigned number) const;
};

struct Pools {
  std::string prefix = {};  ///< the domain of resources without one
  std::vector<Pool> pools = {};

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

/// What a config has against it, as a plugin's --validate prints it.
struct PoolsVerdict {
  std::vector<cni::Complaint> complaints;  ///< by the table of keys
  std::string refusal;                     ///< the first error of the parser; empty: none
  unsigned code = 0;                       ///< its code
  std::vector<AddedKeys> added;            ///< of each pool that is right and lists plugins
};
PoolsVerdict judge_pools(const std::string& text);

/// Whether it may be the name of an extended resource: "vendor.example/nic"
/// (IsExtendedResourceName() of Kubernetes: a qualified name, with a domain that is not
/// kubernetes.io's, and no prefix of quotas).
bool is_resource_name(const std::string& name);

}  // namespace devices
