#pragma once

#include <map>
#include <optional>
#include <vector>

#include "cnitool/probe/packet.h"
#include "netlink/nf/packet_trace.h"
#include "netlink/nf/socket.h"

/// Follows probes through the rules of nf_tables on the node, those of iptables-nft included.
namespace tool::probe {

/// What the rules of the node did with a probe, and with its answer, in order.
struct Trail {
  std::vector<netlink::nf::TraceStep> request, answer;
  /// Of the request, behind all of them; empty: it did not come so far.
  std::optional<Ip> destination = {};
  std::uint32_t mark = 0;  ///< that rules had put on the request at the end
  bool empty() const { return request.empty() && answer.empty(); }
};

/// Makes the kernel trace the packets of a run, and nothing else, while it exists: by tables of our
/// own, which the kernel removes by itself where this process ends.
class Follower {
 public:
  static constexpr const char* kTable = "patchbay_probe";

  /// \throws netlink::Error where the kernel has no nf_tables, or none that traces.
  explicit Follower(const Mark& mark);
  /// Readable: read() has to be called, before the kernel drops what it has to say.
  int fd() const { return trace_.fd(); }
  void read();
  /// The trails of all probes so far, by number. Empties what was read.
  std::map<std::uint16_t, Trail> trails();

 private:
  void note(netlink::nf::TraceStep step);

  Mark mark_;
  netlink::nf::PacketTrace trace_;
  netlink::nf::NfSocket socket_;
  /// A packet in a hook. Only the first of its steps there says what it is and by which links.
  struct Visit {
    Seen packet;
    int in = 0, out = 0;
  };
  std::map<std::uint32_t, Visit> visits_;  // the last of each, by their number in traces
  std::map<std::uint16_t, Trail> trails_;
};

}  // namespace tool::probe
