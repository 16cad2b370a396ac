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

enum class SlotKind : std::uint8_t { kMacvlan, kIpvlan, kVlan, kTap };
/// Also the type of the plugin that makes the link: "macvlan".
std::string str(SlotKind kind);

/// Devices that do not exist before a pod has them: links that the plugin of their kind makes.
struct Slots {
  SlotKind kind = SlotKind::kMacvlan;
  std::string parent = {};  ///< link of the node; may be empty for kind tap
  unsigned count = 0, first = 1;
  int vlan_id = -1;  ///< -1: none
  std::vector<int> vlan_ids = {};
  cni::JsonValue keys = {};  ///< an object: keys of the plugin, as the config has them

  /// The last part of the ids: the VLAN IDs of kind vlan, else first, first + 1, ...
  std::vector<unsigned> numbers() const;
  /// "eth1:macvlan:3"; "tap:3" without a parent.
  std::string id(unsigned number) const;
};

/// How a pod gets a device of the pool.
struct Attach {
  std::string ifname = {};   ///< of the container interface; empty: the next number
  cni::JsonValue keys = {};  ///< an object: keys of the delegates
};

struct Pool {
  std::string resource = {};  ///< with its domain
  std::vector<Selector> devices = {};
  std::vector<Slots> slots = {};  ///< at most one
  std::vector<std::string> force = {};
  Attach attach = {};
  std::vector<std::string> nodes = {};  ///< paths below /dev
  bool rdma = false;
  bool cdi = false;
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

/// What a config has against it, as a plugin's --validate prints it.
struct PoolsVerdict {
  std::vector<cni::Complaint> complaints;  ///< by the table of keys
  std::string refusal;                     ///< the first error of the parser; empty: none
  unsigned code = 0;                       ///< its code
};
PoolsVerdict judge_pools(const std::string& text);

/// Whether it may be the name of an extended resource: "vendor.example/nic"
/// (IsExtendedResourceName() of Kubernetes: a qualified name, with a domain that is not
/// kubernetes.io's, and no prefix of quotas).
bool is_resource_name(const std::string& name);

}  // namespace devices
