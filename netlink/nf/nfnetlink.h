#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "netlink/attributes.h"
#include "netlink/message.h"

/// The header of nfnetlink's messages (linux/netfilter/nfnetlink.h).
namespace netlink::nf {

using netlink::Bytes;

/// "0x00000002 0x00005000": as libnftnl prints data, in words of the byte order it runs in.
std::string words(const Bytes& data);

/// The protocol family of a table (NFPROTO_*); kUnspec is for messages that belong to no table.
enum class TableFamily : std::uint8_t {
  kUnspec = 0,
  kInet = 1,
  kIp = 2,
  kArp = 3,
  kNetdev = 5,
  kBridge = 7,
  kIp6 = 10
};

/// nft's name of the family: "inet", "ip", "arp", "netdev", "bridge", "ip6".
std::string_view name_of(TableFamily family);

/// A message of nf_tables (NFT_MSG_*) and of conntrack (IPCTNL_MSG_CT_*), without attributes.
Message nf_tables_message(int type, int flags, TableFamily family);
Message conntrack_message(int type, int flags, TableFamily family);
/// The beginning or the end (NFNL_MSG_BATCH_*) of a batch for nf_tables.
Message batch_boundary(int type);

/// The attributes of a whole message of nfnetlink; none where it is shorter than its headers.
Attributes attributes_of(const Reply& reply);

}  // namespace netlink::nf
