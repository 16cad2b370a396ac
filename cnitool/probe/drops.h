#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cnitool/probe/drop.h"
#include "cnitool/probe/packet.h"
#include "netlink/bpf/packet_drops.h"

/// Follows probes to where the kernel drops them, in all network namespaces.
namespace tool::probe {

/// Hears which packets of a run the kernel drops while it exists, and which ARP messages and
/// neighbour discovery for their addresses: by a program in the kernel, which ends with this
/// process.
class DropWatch {
 public:
  /// Of these, by number, which outlive it. \throws netlink::Error where the kernel takes no such
  /// program.
  DropWatch(const Mark& mark, const std::vector<Sent>& sent);
  /// Readable: read() has to be called, before the kernel has no more room.
  int fd() const { return drops_.fd(); }
  void read() { drops_.read(); }
  /// The drops of all probes so far, by number, in order, without what the kernel calls so of
  /// packets that have arrived. Empties what was read.
  std::map<std::uint16_t, std::vector<Drop>> take();

 private:
  void note(const netlink::bpf::PacketDrop& one);
  /// Whether it is a copy that a bridge sends to the port of a pod that has nothing to do with the
  /// probe.
  bool is_copy(const netlink::bpf::PacketDrop& drop, const Sent& sent) const;

  Mark mark_;
  const std::vector<Sent>& sent_;
  netlink::bpf::PacketDrops drops_;
  std::set<std::string> links_;  ///< of all pods
  std::map<std::uint16_t, std::vector<Drop>> found_;
};

/// Whether it says nothing of who keeps the packet: the kernel drops what it has handed over
/// already, or a copy, as raw sockets do with packets that they do not ask for, and the stack with
/// answers for a socket that it does not know; and what has waited for a MAC address in vain.
bool says_nothing(const Drop& drop);

}  // namespace tool::probe
