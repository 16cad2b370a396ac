#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cnitool/probe/outside.h"
#include "cnitool/probe/packet.h"
#include "netlink/netns.h"
#include "netlink/types/fd.h"

/// Sends probes, and waits for what comes back.
namespace tool::probe {

/// Sends from one network namespace, as a program there would: by its routes, neighbours and packet
/// filters. Needs CAP_NET_RAW, and CAP_SYS_ADMIN for the namespace of another.
class Sender {
 public:
  /// \throws netlink::Error.
  Sender(const netlink::NetNs& ns, const Mark& mark) : ns_(ns), mark_(mark) {}
  /// In the name of a host beyond the node. \throws cni::Error where that is impossible.
  Sender(const Ip& host, const Mark& mark)
      : ns_(netlink::NetNs::current()), mark_(mark), outside_(host) {}

  /// \return 0, or the errno with which the kernel there refuses it.
  int send(Packet packet);
  /// What has come back since the last call.
  std::vector<Received> take();
  /// Calls back with each of its descriptors, which are readable when something may have come.
  void for_each_fd(const std::function<void(int)>& use) const;
  /// The address that packets to the target have as their source; empty: there is no way.
  std::optional<Ip> source_for(const Ip& target) const;

 private:
  /// A raw socket for a protocol (IPPROTO_*) and a family, which is opened when first needed.
  int socket_for(const Packet& packet);
  int send_query(const Packet& packet);
  /// With "do not fragment", over IPv4.
  int send_whole(const Packet& packet);

  netlink::NetNs ns_;
  Mark mark_;
  std::map<std::pair<std::uint8_t, netlink::Family>, netlink::Fd> raw_;
  std::map<std::uint16_t, std::pair<Packet, netlink::Fd>> queries_;  // by number
  std::optional<Outside> outside_;
  netlink::Fd whole_;
};

/// A probe, from whom it is sent, and what became of it.
struct Shot {
  std::size_t sender = 0;  ///< an index
  Packet packet;
  Answer answer = {};
};

struct Pace {
  unsigned per_second = 100;                ///< packets, of all senders together
  std::chrono::milliseconds patience{500};  ///< after the last of them
  unsigned attempts = 2;                    ///< packets for a probe, at most
  std::chrono::steady_clock::time_point end = std::chrono::steady_clock::time_point::max();
};

/// What is heeded while answers are waited for.
struct Watched {
  int stop = -1;   ///< readable: the user wants an end; -1: none
  int other = -1;  ///< readable: read() is called; -1: none
  std::function<void()> read = {};
};

/// Sends them all, again those that had no answer, and sets their answers. The numbers of their
/// packets are their indexes.
/// \return false where it was stopped, or the end of its pace came.
bool fire(std::vector<Shot>& shots, std::vector<Sender>& senders, const Pace& pace,
          const Watched& watched);

}  // namespace tool::probe
