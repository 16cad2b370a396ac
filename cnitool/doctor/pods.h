#pragma once

#include <ctime>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cnitool/cached.h"
#include "cnitool/find_by.h"
#include "cnitool/unlisted.h"
#include "cnitool/waiting.h"
#include "libcni/runtime/liveness.h"
#include "netlink/route/policy_rule.h"

namespace tool::doctor {

struct Node;

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

/// A rule of the node's that keeps the node from using the route to a pod.
struct RuledAway {
  cni::AttachmentKey key;
  netlink::Cidr subnet;  ///< of the pod's network
  netlink::PolicyRule rule;
};

/// A hostPort of a pod on which a process of the node listens.
struct TakenPort {
  std::string network, pod;  ///< pod: name_of()
  std::string port;          ///< "tcp port 8080"
  std::string filter;        ///< of ss(8), which shows the socket
  std::string holder;        ///< "process 812 (nginx)"
};

/// Whether the doctor was asked for all pods, or for one that is attached to the network.
bool is_asked_for(const Node& node, const std::string& network);

/// "hostPort 80/tcp, hostPort 443/tcp": those of pods that live; empty: none.
std::string live_host_ports(const Node& node, const std::string& network);

/// Whether a pod of the network lives.
bool has_pods(const Node& node, const std::string& network);

/// Whether the attachment's DHCP lease is lost, or not renewed: its CHECK fails for that.
bool is_lost(const Node& node, const cni::AttachmentKey& key);

/// "shop/web-1 (eth0)"; with the beginning of the container's ID if the cache has several
/// containers of that name, "0123456789ab (eth0)" without a name.
std::string name_of(const Node& node, const cni::AttachmentKey& key);

/// "restart the pod shop/web-1", or of all of these.
std::string restart_of(const Node& node, const std::vector<const cni::AttachmentKey*>& pods);
/// Commands without which `cnitool repair` of these pods fails, each with "; " behind; mostly none.
std::string before_repair(const Node& node, const std::vector<const cni::AttachmentKey*>& pods);
/// The option that selects the pod: "--pod shop/web-1", or by its container ID.
std::string option_for(const Node& node, const cni::AttachmentKey& key);

/// Asks the plugins of the attachments in the cache what repair would find; but those whose ADD may
/// go on.
std::vector<Repaired> looks_of(const Node& node, const cni::RuntimeOptions& options, Steps& steps);
/// The hostPorts of living pods on which a socket of the node listens, too.
std::vector<TakenPort> taken_ports(const Node& node);
/// The living pods of which the node has a route that a rule of the node takes no heed of.
std::vector<RuledAway> ruled_away(const Node& node);
/// Sets AttachmentState::is_running of each attachment without a result, and refusal: the error of
/// the config and the arguments of its ADD (--validate). \param path CNI_PATH.
void look_at_unfinished(Node& node, const std::string& path, const cni::Env& env);

}  // namespace tool::doctor
