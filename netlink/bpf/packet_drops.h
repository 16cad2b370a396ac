#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "netlink/bpf/enum_names.h"
#include "netlink/bpf/object.h"
#include "netlink/packet_filter.h"

/// Which packets the kernel drops, why, and where: the tracepoint skb:kfree_skb.
namespace netlink::bpf {

/// A packet that the kernel has dropped.
struct PacketDrop {
  /// As the kernel calls it, without SKB_DROP_REASON_ ("NETFILTER_DROP"); empty: before Linux 5.17.
  std::string reason = {};
  std::string symbol = {};  ///< the function that dropped it; empty: not to be known
  std::string link = {};    ///< the name of the link that it was at; empty: it was at none
  int link_index = 0;
  std::uint32_t netns = 0;     ///< the inode of the link's network namespace; 0: unknown
  std::uint16_t protocol = 0;  ///< ETH_P_*
  /// The beginnings of the headers: of IPv4 without options, of the transport 20 bytes, of
  /// neighbour discovery 24. Of ARP the message, and no transport.
  Bytes network = {}, transport = {};
};

/// Hears of dropped packets that one of the filters selects, in all network namespaces, and of ARP
/// messages and neighbour discovery for the addresses. The program in the kernel ends with this
/// process at the latest.
class PacketDrops {
 public:
  /// Filters look at 1 to 4 bytes within one of the second and third 32 bits; at most 8, and at
  /// most 4096 addresses: others are left out.
  /// \throws Error where the kernel loads no such program: without its types (BTF), without
  /// CAP_BPF and CAP_PERFMON, when locked down, before Linux 5.8, or as is_built_in().
  PacketDrops(const std::vector<PacketFilter>& filters, const std::vector<Ip>& addresses);
  PacketDrops(const PacketDrops&) = delete;
  PacketDrops& operator=(const PacketDrops&) = delete;
  /// Readable where there are drops: read() has to be called, before there is no more room.
  int fd() const { return ring_.fd(); }
  /// Empties the ring, at most 50,000 drops until take(): the others of a flood are lost.
  void read() { ring_.read(); }
  /// Those since the last call, in order. Reads all symbols of the kernel.
  std::vector<PacketDrop> take();

 private:
  std::string reason_of(std::uint32_t value) const;

  EnumNames names_;
  Object object_;
  Fd attached_;
  std::vector<Bytes> events_;
  Ring ring_;
};

}  // namespace netlink::bpf
