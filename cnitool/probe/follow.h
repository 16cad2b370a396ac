#pragma once

#include <list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cnitool/probe/drop.h"
#include "cnitool/probe/packet.h"
#include "netlink/netns.h"
#include "netlink/nf/packet_trace.h"
#include "netlink/nf/socket.h"

/// Follows probes through the rules of nf_tables on the node and in pods, those of iptables-nft
/// included.
namespace tool::probe {

/// Where a packet was seen: a hook, before or behind all rules there.
enum class Hook : std::uint8_t {
  kNone,
  kDeviceIn,       ///< received from a link
  kBridgeIn,       ///< received by a port of a bridge
  kBridgeLocal,    ///< a bridge hands it over to the node
  kBridgeForward,  ///< from port to port
  kBridgeOut,      ///< to a port, behind all rules
  kIn,             ///< prerouting
  kLocal,          ///< routed to the namespace itself, before all rules of input
  kTaken,          ///< behind all rules of input
  kForward,        ///< routed to another host, before all rules of forward
  kOut,            ///< made here, before all rules of output
  kLeaves,         ///< behind all rules of postrouting
  kDeviceOut       ///< handed over to a link
};
struct Sight {
  std::size_t place = 0;  ///< an index of Follower's posts
  Hook hook = Hook::kNone;
  std::string in = {}, out = {};  ///< names of links
};

/// A step of a packet, and in which namespace.
struct PlacedStep {
  std::size_t place = 0;  ///< an index of Follower's posts
  netlink::nf::TraceStep step;
};

/// What the rules did with a probe, and with its answer, in order.
struct Trail {
  std::vector<PlacedStep> request, answer;
  std::vector<Sight> request_sights, answer_sights;
  /// Of the request, behind the last NAT of the node that it has passed; empty: it passed none.
  std::optional<Ip> destination = {};
  /// That rules had put on the request and on the answer at the end.
  std::uint32_t mark = 0, answer_mark = 0;
  /// In order, without those of packets that had arrived.
  std::vector<Drop> drops = {};
  bool empty() const { return request.empty() && answer.empty(); }
};

/// A step of an ARP packet or a neighbour solicitation or advertisement.
struct Resolution {
  PlacedStep at;
  Ip ip;  ///< whose MAC address it is about
};

/// Makes the kernel trace the packets of a run, and nothing else, while it exists: by tables of our
/// own, which the kernel removes by itself where this process ends.
class Follower {
 public:
  static constexpr const char* kTable = "patchbay_probe";

  /// A namespace, and those of its links whose ingress and egress hooks are looked at.
  struct Post {
    netlink::NetNs ns;
    std::vector<std::string> links;
  };
  /// Follows these, by number. The first post is the node. asked: whose resolution is followed,
  /// too; of too many, none is. \throws netlink::Error where the node has no nf_tables, or none
  /// that traces.
  Follower(const Mark& mark, const std::vector<Sent>& sent, const std::vector<Post>& posts,
           std::vector<Ip> asked);
  /// Readable: read() has to be called, before the kernel drops what it has to say.
  int fd() const { return ready_.get(); }
  void read();
  /// False: more came at once than the kernel keeps, and traces were lost.
  bool is_complete() const;
  /// The trails of all probes so far, by number. Empties what was read.
  std::map<std::uint16_t, Trail> trails();
  const std::vector<Resolution>& resolutions() const { return resolutions_; }

 private:
  /// A packet in a hook. Only the first of its steps there says what it is and by which links.
  struct Visit {
    std::optional<Seen> packet;
    std::optional<Ip> resolved;
    int in = 0, out = 0;
  };
  struct Ear {
    std::size_t place = 0;
    netlink::nf::PacketTrace trace;
    netlink::nf::NfSocket socket;
    std::map<int, std::string> names = {};       // of links
    std::map<std::uint32_t, Visit> visits = {};  // the last of each, by their number in traces
  };
  void listen(std::size_t place, const Post& post);
  bool is_sent(const Seen& seen) const;
  void note(Ear& ear, netlink::nf::TraceStep step);
  void note_own(const Ear& ear, const netlink::nf::TraceStep& step, const Visit& visit);

  Mark mark_;
  const std::vector<Sent>& sent_;
  std::vector<Ip> asked_;
  netlink::Fd ready_;
  std::list<Ear> ears_;
  std::map<std::uint16_t, Trail> trails_;
  std::vector<Resolution> resolutions_;
};

}  // namespace tool::probe
