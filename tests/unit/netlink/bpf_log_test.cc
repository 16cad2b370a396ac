#include <doctest/doctest.h>

#include "netlink/bpf/log.h"

using netlink::bpf::last_words;

TEST_CASE("a verifier's last words are why, not how long it took") {
  // Linux 6.18, a call of a function that is not there.
  CHECK(last_words("0: R1=ctx() R10=fp0\n"
                   "; const __u64 cost = packet->wire_len; @ edt.bpf.c:64\n"
                   "14: (7b) *(u64 *)(r10 -16) = r1       ; R1=scalar(id=2) R10=fp0 fp-16=x\n"
                   "15: (85) call unknown#32517\n"
                   "invalid func unknown#32517\n"
                   "verification time 93 usec\n"
                   "processed 12 insns (limit 1000000) max_states_per_insn 0 total_states 0\n") ==
        "14: (7b) *(u64 *)(r10 -16) = r1; 15: (85) call unknown#32517; invalid func unknown#32517");
  CHECK(last_words("one\n\ntwo") == "one; two");
  CHECK(last_words("processed 0 insns\n").empty());
  CHECK(last_words("").empty());
}
