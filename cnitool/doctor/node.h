#pragma once

#include <cstdint>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cnitool/cached.h"
#include "cnitool/doctor/agents.h"
#include "cnitool/doctor/firewall.h"
#include "cnitool/doctor/peers.h"
#include "cnitool/doctor/places.h"
#include "cnitool/doctor/plugin_files.h"
#include "cnitool/doctor/source.h"
#include "cnitool/find_by.h"
#include "cnitool/leases.h"
#include "cnitool/leftovers.h"
#include "cnitool/node_runtimes.h"
#include "cnitool/pool.h"
#include "cnitool/repair.h"
#include "cnitool/settings.h"
#include "cnitool/unlisted.h"
#include "libcni/runtime/conflist.h"
#include "libcni/runtime/liveness.h"
#include "netlink/nf/conntrack.h"
#include "netlink/route/address.h"
#include "netlink/route/link.h"
#include "netlink/route/route.h"

namespace tool::doctor {

namespace kubernetes {
struct Cluster;
}

using cni::cat;

/// An attachment of the cache, and whether its pod exists.
struct AttachmentState {
  cni::AttachmentKey key;
  std::string pod = {};              ///< pod_name_of()
  std::set<std::string> types = {};  ///< of the plugins that CHECK and DEL call
  std::string netns;
  std::time_t modified = 0;
  std::string stamp = {};                            ///< of the cache file
  bool is_finished = false, has_own_tables = false;  ///< tables: of its routes, by sbr or vrf
  /// An operation on the container is running, if this is not finished. Empty: unknown.
  std::optional<bool> is_running = {};
  std::string refusal = {};  ///< the error of its config: of ADD, if that is why it is not finished
  cni::Liveness liveness = cni::Liveness::kUnknown;
  bool lost_its_name = false;  ///< nothing is at `netns`, and the node shows that the pod lives
  std::string seen_at = {};    ///< then: where its namespace is; empty: unknown
  cni::Result result;
  std::vector<HostPort> host_ports = {};
  bool is_alive() const { return is_finished && liveness == cni::Liveness::kAlive; }
};

/// A thing of a network that no attachment in the cache has.
struct NetworkLeftover {
  std::string network;
  cni::Runtime::Found found;
  cni::JsonValue plugin;  ///< of a network without a config: the plugin that collects it
};

/// All that the checks look at, read once.
struct Node {
  Selection which;                       ///< with containers: only what concerns their pod
  std::map<Source, std::string> unseen;  ///< and why
  std::time_t now = 0;

  cni::Networks networks;
  std::vector<NodeRuntime> runtimes;
  std::vector<std::string> plugin_path;
  std::vector<Place> places;  ///< of configs, plugins and state
  std::vector<PluginFile> programs;
  Suite suite;  ///< looked for where a plugin has to be installed
  std::vector<Complaint> complaints;

  std::string cache_dir;
  std::vector<AttachmentState> attachments;
  std::vector<Unlisted> unlisted;               ///< others that the node shows
  std::vector<Repaired> looks, unlisted_looks;  ///< by their plugins; at the leases of unlisted
  std::vector<cni::Cache::Broken> broken;       ///< in the cache
  std::vector<LaterFile> later_files;

  std::vector<netlink::Link> links;
  std::vector<netlink::LinkRoute> routes;    ///< of both families
  std::vector<netlink::LinkRoute> refusals;  ///< routes that refuse packets, of both
  std::vector<netlink::LinkAddress> addresses;
  std::vector<RuledAway> ruled_away;        ///< pods that live
  std::vector<netlink::nf::Flow> stranded;  ///< stranded_connections()
  Firewall firewall;
  std::vector<Pool> pools, other_pools;  ///< other: leases of networks without a config
  std::vector<NetworkLeftover> leftovers;
  std::vector<DhcpLease> leases;
  bool has_iptables = true;  ///< iptables-restore is installed
  bool runs_firewalld = false, has_ufw = false;
  bool lacks_lease_daemon = false;  ///< no process holds the lock of the daemon of dhcp
  std::vector<DeviceAgent> device_agents;
  std::vector<FileSystem> file_systems;
  std::vector<std::string> no_folders = {};  ///< files where a folder of state should be
  std::vector<HeldLock> held_locks;
  std::vector<TakenPort> taken_ports;
  std::shared_ptr<const kubernetes::Cluster> cluster;  ///< null: nobody asked
  std::vector<Peer> peers;                             ///< nodes that this one should reach
  std::function<std::optional<std::string>(const std::string& key)> sysctl;  ///< empty: none

  bool is_of_one_pod() const { return !which.containers.empty(); }
  const cni::NetworkList* network(const std::string& name) const {
    return find_by(networks.lists, &cni::NetworkList::name, name);
  }
  const PluginFile* program(const std::string& type) const {
    return find_by(programs, &PluginFile::type, type);
  }
  const netlink::Link* link(const std::string& name) const {
    return find_by(links, &netlink::Link::name, name);
  }
  const netlink::Link* link(int index) const {
    return find_by(links, &netlink::Link::index, index);
  }
};

}  // namespace tool::doctor
