#pragma once

// Shared by packet_drops.cc and packet_drops.bpf.c, which is C. Bytes of packets are as on the
// wire.

#define PATCHBAY_MAX_DROP_FILTERS 8

/// A packet passes if the 32 bits at this word of its transport header are value under mask.
struct DropFilter {
  unsigned int protocol;  ///< IPPROTO_*; 0: none
  unsigned int word;      ///< 1 or 2
  unsigned int mask, value;
};

/// The program's constants.
struct DropConstants {
  unsigned int has_reason;     ///< the tracepoint has one, since Linux 5.17
  unsigned int has_addresses;  ///< the map of addresses is not empty
  struct DropFilter filters[PATCHBAY_MAX_DROP_FILTERS];
};

/// What the ring has of each packet.
struct DropEvent {
  unsigned long long location;  ///< an address in the function that dropped it
  unsigned int reason;          ///< enum skb_drop_reason; 0: unknown
  unsigned int link, netns;     ///< the index, and the inode of its namespace; 0: none
  unsigned int protocol;        ///< ETH_P_ARP, ETH_P_IP, ETH_P_IPV6
  char name[16];                ///< the link's
  /// The beginnings of the headers, of ARP the whole message in the first.
  unsigned char network[40], transport[24];
};
