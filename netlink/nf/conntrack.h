#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "netlink/nf/nfnetlink.h"
#include "netlink/nf/socket.h"
#include "netlink/types/ip.h"

/// Entries of the kernel's connection tracking (linux/netfilter/nfnetlink_conntrack.h), for
/// protocols with ports, and for echo requests.
namespace netlink::nf {

/// From whom to whom, in one direction. Of ICMP and ICMPv6 the ID stands for the source's port,
/// type * 256 + code for the destination's.
struct Tuple {
  Ip source, destination;
  std::uint16_t source_port = 0, destination_port = 0;
  bool operator==(const Tuple&) const = default;
};

/// One connection. Without NAT the reply is the original turned around.
struct Flow {
  std::uint8_t protocol = 0;  ///< IPPROTO_*
  Tuple original, reply;
  std::uint32_t id = 0;  ///< two connections that follow each other differ in it
  /// The zone of both directions, or of the original one alone; 0 is the usual.
  std::uint16_t zone = 0, original_zone = 0;
  bool operator==(const Flow&) const = default;
  /// "17 10.0.0.1:4242 -> 10.0.0.2:53".
  std::string str() const;
};

/// An absent field matches any value.
struct FlowFilter {
  Family family = Family::kIpv4;
  std::uint8_t protocol = 0;
  std::optional<std::uint16_t> original_port = {};  ///< of the destination
  std::optional<Ip> original_destination = {};
  std::optional<Ip> reply_source = {};  ///< who really answers

  bool matches(const Flow& flow) const;
};

/// The connections of the socket's namespace that the filter asks for; none where the kernel has no
/// conntrack. Kernels from 5.8 on filter themselves, IPv6 by port alone; others hand over all that
/// they have. \throws Error.
std::vector<Flow> flows(NfSocket& socket, const FlowFilter& filter);

/// The connection of that protocol whose first packet is described by the tuple; empty: none, or no
/// conntrack. The time it takes does not depend on how many there are. \throws Error.
std::optional<Flow> find(NfSocket& socket, std::uint8_t protocol, const Tuple& original);

/// Whether the kernel answers questions about connections: it may track them without
/// (nf_conntrack_netlink is a module of its own). \throws Error.
bool answers_about_flows(NfSocket& socket);

/// Removes exactly this connection; false where it is gone. \throws Error.
bool remove(NfSocket& socket, const Flow& flow);

/// IPCTNL_MSG_CT_GET for all that the filter asks for, or for all of its family.
Message encode_flow_query(const FlowFilter& filter, bool in_kernel);
/// IPCTNL_MSG_CT_GET for one of them.
Message encode_flow_query(std::uint8_t protocol, const Tuple& original);
/// IPCTNL_MSG_CT_DELETE. It always has a tuple: without one the kernel would remove everything.
Message encode_removal(const Flow& flow);
/// Reads an IPCTNL_MSG_CT_NEW; nothing where a tuple is missing or without ports.
std::optional<Flow> decode_flow(const Attributes& attributes);

}  // namespace netlink::nf
