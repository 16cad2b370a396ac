// Runs for every packet that the kernel drops, of all network namespaces (the tracepoint
// skb:kfree_skb), and reports those that a filter selects. Others cost a comparison or two.
// The headers of packets are read with functions that the kernel keeps for programs under the GPL:
// this file, and no other, is under the MIT licence and the GPL, version 2, as well.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in6.h>
// After linux/bpf.h, whose types it uses.
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "netlink/bpf/drop_event.h"

// What is used of the kernel's own structures: the offsets are those of the running kernel (BTF).
#define OF_KERNEL __attribute__((preserve_access_index))
struct ns_common {
  unsigned int inum;
} OF_KERNEL;
struct net {
  struct ns_common ns;
} OF_KERNEL;
typedef struct {
  struct net* net;
} OF_KERNEL possible_net_t;
struct net_device {
  int ifindex;
  possible_net_t nd_net;
  char name[16];
} OF_KERNEL;
struct sk_buff {
  struct net_device* dev;
  unsigned int len, data_len;
  __be16 protocol;
  __u16 network_header, transport_header;
  unsigned char *head, *data;
} OF_KERNEL;

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 256 * 1024);
} events SEC(".maps");

// Addresses whose ARP messages and neighbour discovery are reported; of IPv4 the first 4 bytes.
struct address {
  __u32 words[4];
};
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 4096);
  __type(key, struct address);
  __type(value, __u8);
} addresses SEC(".maps");

// Set before the program is loaded; the verifier then knows the values.
const volatile struct DropConstants constants = {.has_reason = 1};

#define IN_NETWORK 40
#define IN_TRANSPORT 24
struct headers {
  __u8 network[IN_NETWORK];
  __u32 transport[IN_TRANSPORT / 4];
};

static int is_wanted_address(const void* bytes, __u32 size) {
  struct address key = {};
  __builtin_memcpy(&key, bytes, size == 4 ? 4 : 16);
  return bpf_map_lookup_elem(&addresses, &key) != 0;
}

// The reading is bounded by what is there: behind it lies another packet, or nothing.
static int read_at(struct sk_buff* packet, __u32 offset, void* into, __u32 size) {
  const unsigned char* const from = packet->head + offset;
  const long there = packet->data + (packet->len - packet->data_len) - from;
  if (there < (long)size) return 0;
  return bpf_probe_read_kernel(into, size, from) == 0;
}

// The message of RFC 826 for IPv4 over Ethernet, behind its first 8 bytes.
static int is_wanted_arp(struct sk_buff* packet, struct headers* out) {
  const __u32 size = 28, sender = 14, target = 24;
  if (!constants.has_addresses || !read_at(packet, packet->network_header, out->network, size))
    return 0;
  return is_wanted_address(out->network + target, 4) || is_wanted_address(out->network + sender, 4);
}

static int is_wanted_neighbour(struct sk_buff* packet, __u32 offset, struct headers* out) {
  const __u32 size = 24, solicitation = 135, advertisement = 136;
  if (!constants.has_addresses || !read_at(packet, offset, out->transport, size)) return 0;
  const __u32 type = out->transport[0] & bpf_htonl(0xff000000);
  if (type != bpf_htonl(solicitation << 24) && type != bpf_htonl(advertisement << 24)) return 0;
  return is_wanted_address(&out->transport[2], 16);
}

static int is_wanted_ip(struct sk_buff* packet, struct headers* out) {
  const int is_v4 = packet->protocol == bpf_htons(ETH_P_IP);
  const __u32 begin = packet->network_header;
  if (!read_at(packet, begin, out->network, is_v4 ? 20 : IN_NETWORK)) return 0;
  if (out->network[0] >> 4 != (is_v4 ? 4 : 6)) return 0;
  const __u32 protocol = out->network[is_v4 ? 9 : 6];
  const __u32 size = is_v4 ? (out->network[0] & 0xf) * 4 : IN_NETWORK;
  if (is_v4 && ((out->network[6] & 0x1f) | out->network[7])) return 0;  // a later fragment
  int is_known = 0;
#pragma unroll
  for (int i = 0; i < PATCHBAY_MAX_DROP_FILTERS; ++i)
    is_known |= protocol == constants.filters[i].protocol;
  if (!is_known || protocol == 0) return 0;
  const __u32 most = 12, empty_datagram = 8;
  if (!read_at(packet, begin + size, out->transport, most) &&
      !read_at(packet, begin + size, out->transport, empty_datagram))
    return 0;
#pragma unroll
  for (int i = 0; i < PATCHBAY_MAX_DROP_FILTERS; ++i) {
    const __u32 word = constants.filters[i].word == 1 ? out->transport[1] : out->transport[2];
    if (protocol == constants.filters[i].protocol &&
        (word & constants.filters[i].mask) == constants.filters[i].value) {
      // As much as tells an echo from others; of a segment all.
      if (!read_at(packet, begin + size, out->transport, 20)) {
        read_at(packet, begin + size, out->transport, 16);
      }
      return 1;
    }
  }
  return !is_v4 && protocol == IPPROTO_ICMPV6 && is_wanted_neighbour(packet, begin + size, out);
}

static int is_wanted(struct sk_buff* packet, struct headers* out) {
  const __be16 protocol = packet->protocol;
  if (protocol == bpf_htons(ETH_P_IP) || protocol == bpf_htons(ETH_P_IPV6))
    return is_wanted_ip(packet, out);
  return protocol == bpf_htons(ETH_P_ARP) && is_wanted_arp(packet, out);
}

SEC("tp_btf/kfree_skb")
int report(unsigned long long* arguments) {
  struct sk_buff* const packet = (struct sk_buff*)arguments[0];
  struct headers headers = {};
  if (!is_wanted(packet, &headers)) return 0;
  struct DropEvent* const event = bpf_ringbuf_reserve(&events, sizeof *event, 0);
  if (!event) return 0;  // it is full
  event->location = arguments[1];
  event->reason = constants.has_reason ? (__u32)arguments[2] : 0;
  event->protocol = bpf_ntohs(packet->protocol);
  struct net_device* const link = packet->dev;
  event->link = link ? link->ifindex : 0;
  event->netns = link ? link->nd_net.net->ns.inum : 0;
  event->name[0] = 0;
  if (link) bpf_probe_read_kernel_str(event->name, sizeof event->name, link->name);
  __builtin_memcpy(event->network, headers.network, sizeof event->network);
  __builtin_memcpy(event->transport, headers.transport, sizeof event->transport);
  bpf_ringbuf_submit(event, 0);
  return 0;
}

char _license[] SEC("license") = "Dual MIT/GPL";
