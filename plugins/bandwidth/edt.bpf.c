// Runs for every packet that a pod sends, at the egress of its interface (clsact, direct action),
// and writes into it when it may leave; the fq qdisc behind it holds the packet until then
// (tc-fq(8)). A token bucket that counts in time: next runs ahead of the clock as far as the
// packets that wait take at the rate, and behind it no further than the burst takes.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
// After linux/bpf.h, whose types it uses.
#include <bpf/bpf_helpers.h>

#include "plugins/bandwidth/edt_constants.h"

// The kernel knows a lock by the name of its type.
struct departures {
  struct bpf_spin_lock lock;
  __u32 unused;
  __u64 next, remainder;
};
_Static_assert(sizeof(struct departures) == sizeof(struct EdtDepartures), "the same layout");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct departures);
} departures SEC(".maps");

// Set before the program is loaded; the verifier then knows the values.
const volatile struct EdtConstants constants = {.rate = 1};

// Times start here and not at 0, so that those before the machine booted exist too: there a bucket
// was full, and next is when the map is new.
static const __u64 kEpoch = 1ULL << 62;

// Several processors send at once: between reading next and writing it nobody else may.
static int accept(struct departures* shared, __u64 now, __u64 cost, __u64* departure) {
  const __u64 idle_since = now - constants.credit;
  int accepted = 0;
  bpf_spin_lock(&shared->lock);
  __u64 begin = shared->next;
  __u64 rest = shared->remainder;
  if (begin < idle_since) {
    begin = idle_since;
    rest = 0;
  }
  // Another rate's, when the map was taken over from another program.
  if (rest >= constants.rate) rest = 0;
  cost += rest;
  const __u64 end = begin + cost / constants.rate;
  if (begin <= now + constants.horizon && end <= now + constants.latest) {
    shared->next = end;
    shared->remainder = cost % constants.rate;
    accepted = 1;
  }
  bpf_spin_unlock(&shared->lock);
  *departure = end > now ? end : now;
  return accepted;
}

SEC("tc")
int shape(struct __sk_buff* packet) {
  const __u32 first = 0;
  struct departures* const shared = bpf_map_lookup_elem(&departures, &first);
  if (!shared) return TC_ACT_UNSPEC;  // cannot be, but the verifier does not know
  // With the headers of all segments that a large packet is cut into, unlike len.
  const __u64 cost = (__u64)packet->wire_len * 1000000000ULL;
  __u64 departure;
  if (!accept(shared, kEpoch + bpf_ktime_get_ns(), cost, &departure)) return TC_ACT_SHOT;
  // The sender's own wish (SO_TXTIME) does not count, as it would not without a limit: noqueue, a
  // pod's usual qdisc, knows no departure times. TCP paces itself where no qdisc offers to.
  packet->tstamp = departure - kEpoch;
  return TC_ACT_UNSPEC;  // other filters have their say
}

// Calls nothing that the kernel reserves for the GPL, from Linux 5.8 on (bpf_ktime_get_ns).
char _license[] SEC("license") = "Apache-2.0";
