#pragma once

#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cnitool/doctor/firewall.h"
#include "cnitool/doctor/plugin_files.h"
#include "cnitool/doctor/source.h"
#include "cnitool/settings.h"
#include "libcni/runtime/cache.h"
#include "libcni/runtime/conflist.h"
#include "netlink/route/bridge_vlan.h"

namespace netlink {
struct Link;
struct LinkAddress;
struct LinkRoute;
namespace nf {
struct Flow;
}
}  // namespace netlink

namespace tool::probe {
struct Outcome;
}
namespace tool {
struct BlockPool;
struct DhcpLease;
struct NodeRuntime;
struct Pool;
struct Repaired;
struct Unlisted;
}  // namespace tool

namespace tool::doctor {

namespace kubernetes {
struct Cluster;
}
struct AttachmentState;
struct DeviceAgent;
struct FileSystem;
struct HeldLock;
struct LaterFile;
struct NetworkLeftover;
struct Peer;
struct Place;
struct RuledAway;
struct TakenPort;

/// All that the checks look at, read once. A check includes the headers of the facts that it reads.
struct Node {
  Selection which;                       ///< with containers: only what concerns their pod
  std::map<Source, std::string> unseen;  ///< and why
  std::time_t now = 0;

  cni::Networks networks;
  std::vector<cni::NetworkList> attached;  ///< networks of pods that live, which no file names
  std::vector<NodeRuntime> runtimes;
  std::vector<std::string> plugin_path;
  std::vector<Place> places;  ///< of configs, plugins and state
  std::vector<PluginFile> programs;
  Suite suite;  ///< looked for where a plugin has to be installed
  std::vector<StatusError> complaints;

  std::string cache_dir;
  std::vector<AttachmentState> attachments;
  std::vector<Unlisted> unlisted;               ///< others that the node shows
  std::vector<Repaired> looks, unlisted_looks;  ///< by their plugins; at the leases of unlisted
  std::vector<cni::Cache::Broken> broken;       ///< in the cache
  std::vector<LaterFile> later_files;

  std::vector<netlink::Link> links;
  std::map<int, std::vector<netlink::PortVlan>> port_vlans;  ///< by the index of the bridge port
  std::vector<netlink::LinkRoute> routes;                    ///< of both families
  std::vector<netlink::LinkRoute> refusals;  ///< routes that refuse packets, of both
  std::vector<netlink::LinkAddress> addresses;
  std::vector<RuledAway> ruled_away;        ///< pods that live
  std::vector<netlink::nf::Flow> stranded;  ///< stranded_connections()
  Firewall firewall;
  std::vector<Pool> pools, other_pools;  ///< other: leases of networks without a config
  std::vector<BlockPool> block_pools;
  std::vector<NetworkLeftover> leftovers;
  std::vector<DhcpLease> leases;
  bool has_iptables = true;  ///< iptables-restore is installed
  bool runs_firewalld = false, has_ufw = false;
  bool lacks_lease_daemon = false;  ///< no process holds the lock of the daemon of dhcp
  std::vector<DeviceAgent> device_agents;
  std::vector<FileSystem> file_systems;
  std::vector<std::string> no_folders;  ///< files where a folder of state should be
  std::vector<std::string> no_locks;    ///< folders and others where a lock file should be
  std::vector<HeldLock> held_locks;
  std::vector<TakenPort> taken_ports;
  std::shared_ptr<const kubernetes::Cluster> cluster;  ///< null: nobody asked
  std::vector<Peer> peers;                             ///< nodes that this one should reach
  std::shared_ptr<const probe::Outcome> probed;        ///< null: nobody asked
  std::function<std::optional<std::string>(const std::string& key)> sysctl;  ///< empty: none
  std::map<std::string, int> other_names;  ///< by which configs name links (ip-link(8), altname)

  Node();
  Node(Node&&) noexcept;
  Node& operator=(Node&&) noexcept;
  ~Node();
  bool is_of_one_pod() const { return !which.containers.empty(); }
  const cni::NetworkList* network(const std::string& name) const;  ///< null: none
  const PluginFile* program(const std::string& type) const;
  const netlink::Link* link(const std::string& name) const;
  const netlink::Link* link(int index) const;
};

}  // namespace tool::doctor
