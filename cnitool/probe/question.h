#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cnitool/cached.h"
#include "cnitool/probe/packet.h"
#include "cnitool/settings.h"
#include "libcni/runtime/cache.h"
#include "netlink/route/link.h"
#include "netlink/types/mac.h"

/// What is asked of a node's pods: whom they reach, and who reaches them, by what their configs
/// promise.
namespace tool::probe {

/// An attachment whose pod lives.
struct Subject {
  cni::AttachmentKey key;
  std::string name;  ///< "shop/web-1 (eth0)"
  std::string netns;
  cni::Result result = {};
  netlink::Link link = {};  ///< its interface, as it was at first; without an index: unknown
  std::string bridge = {};  ///< that its config names; empty: none
  std::vector<HostPort> host_ports = {};
  bool is_routed = false;        ///< the node forwards what it sends
  bool has_vlan = false;         ///< its config names VLANs of the bridge
  bool is_masqueraded = false;   ///< with the node's address as its source
  bool takes_networks = true;    ///< its policy takes connections of pods of other networks
  bool takes_neighbours = true;  ///< and of its own
  bool maps_loopback = true;     ///< its hostPorts are at 127.0.0.1, too
};

/// The subject of an attachment of the cache.
Subject subject_of(const cni::CachedAttachment& one);

/// The addresses of the pod's own interface, one of each family.
std::vector<cni::Address> addresses_of(const Subject& one);

/// The hardware address that its result says the pod has; empty: none.
std::optional<netlink::Mac> mac_of(const Subject& one);

/// What the plan needs to know of the node.
struct NodeFacts {
  struct Uplink {
    Ip own, gateway;
    std::string link = {};  ///< its name
  };
  std::optional<Uplink> v4 = {}, v6 = {};  ///< by its default route
  std::vector<Ip> addresses = {};          ///< of its links
  std::vector<Ip> routers = {};            ///< of its routes
  const std::optional<Uplink>& uplink(netlink::Family family) const {
    return family == netlink::Family::kIpv4 ? v4 : v6;
  }
  bool has(const Ip& ip) const;
};
/// Of the namespace that this process is in. \throws netlink::Error.
NodeFacts look_at_node();

enum class About : std::uint8_t {
  kGateway,     ///< a pod's gateway
  kFromNode,    ///< from the node to a pod, as its kubelet's probes
  kPod,         ///< another pod
  kWayOut,      ///< the first hop beyond the node
  kNameServer,  ///< of a pod's result
  kHostPort,    ///< a port of the node
  kSize,        ///< a packet as large as the pod's interface takes
  kAsked,       ///< what the user named
  kOutside      ///< from a host beyond the node, which is the packet's source
};

struct Question {
  About about;
  std::size_t subject = 0;                 ///< the pod whose promise it is: an index
  std::optional<std::size_t> sender = {};  ///< the pod that sends; empty: the node
  Packet packet = {};
  /// Where the packet has to arrive, if that is another address than its target.
  std::optional<Ip> destination = {};
  std::uint16_t destination_port = 0;
  std::string text = {};  ///< "shop/web-1 (eth0) to its gateway 10.1.0.1"
  /// Whether the answer says that all is well: without one nothing is known of a host that may
  /// answer nobody.
  bool must_answer = true;
};

/// Whether there is a packet for its protocol, and by what packet it is asked.
bool is_probed(const HostPort& port);
Kind kind_of(const HostPort& port);
/// "hostPort 8080", "UDP hostPort 5353".
std::string name_of(const HostPort& port);

/// Where its packet has to arrive.
Ip destination_of(const Question& question);
/// Whether that is an address of its pod.
bool is_for_pod(const Question& question, const Subject& pod);

/// The questions about all of them, or about those of `asked`; the others may be whom they reach.
std::vector<Question> questions_of(const std::vector<Subject>& subjects,
                                   const std::vector<bool>& asked, const NodeFacts& node);

/// Those of a pod to the name servers of its result, by UDP and TCP.
void add_name_servers(const Subject& one, std::size_t index, std::vector<Question>& out);

}  // namespace tool::probe
