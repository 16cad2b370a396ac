#include "cnitool/probe/follow.h"

#include <netinet/in.h>

#include <utility>

#include "netlink/types/error.h"

namespace tool::probe {

namespace {

using netlink::nf::TableFamily;
using netlink::nf::TraceFilter;
using netlink::nf::TraceStep;

Bytes big_endian(std::uint32_t value, std::size_t size) {
  Bytes out;
  for (std::size_t i = size; i-- > 0;) out.push_back(static_cast<std::uint8_t>(value >> 8 * i));
  return out;
}

// IDs of echoes; the sequence numbers of requests, and those that answers acknowledge; and the IDs
// of queries, behind UDP's header.
std::vector<TraceFilter> filters_for(const Mark& mark) {
  return {{IPPROTO_ICMP, 4, big_endian(mark.id, 2)},
          {IPPROTO_ICMPV6, 4, big_endian(mark.id, 2)},
          {IPPROTO_TCP, 4, big_endian(mark.cookie, 4)},
          {IPPROTO_TCP, 8, big_endian(mark.cookie + 1, 4)},
          {IPPROTO_UDP, 8, big_endian(mark.id, 2)}};
}

constexpr std::uint32_t kHookIn = 1, kHookOut = 4;  // NF_INET_LOCAL_IN, NF_INET_POST_ROUTING
constexpr const char kIn[] = "input", kOut[] = "postrouting";

// Chains behind all others, NAT's included: what a request that arrives there has become.
netlink::nf::Batch last_chains() {
  constexpr std::int32_t kLast = 1000;
  netlink::nf::Batch out;
  for (const auto& [name, hook] : {std::pair(kIn, kHookIn), std::pair(kOut, kHookOut)}) {
    const netlink::nf::Hook base{.type = "filter", .number = hook, .priority = kLast};
    out.add(netlink::nf::Chain{.id = {TableFamily::kInet, Follower::kTable, name}, .hook = base});
  }
  return out;
}

}  // namespace

Follower::Follower(const Mark& mark) : mark_(mark) {
  socket_.commit(netlink::nf::tracing_table(TableFamily::kInet, kTable, filters_for(mark)));
  socket_.commit(last_chains());
  try {
    socket_.commit(netlink::nf::tracing_table(TableFamily::kBridge, kTable, filters_for(mark)));
  } catch (const netlink::Error&) {  // a kernel without nf_tables for bridges: none drops there
  }
}

void Follower::note(TraceStep step) {
  constexpr std::size_t kMostVisits = 100'000, kMostSteps = 1'000;  // a pod may flood with these
  if (visits_.size() > kMostVisits) visits_.clear();
  if (auto seen = seen_in(mark_, step.network, step.transport)) {
    visits_[step.packet] = {*seen, step.in, step.out};
  }
  const auto found = visits_.find(step.packet);
  if (found == visits_.end()) return;
  const Visit& visit = found->second;
  step.in = visit.in;
  step.out = visit.out;
  Trail& trail = trails_[visit.packet.number];
  if (step.chain.table == kTable) {
    const bool is_last = step.chain.chain == kIn || step.chain.chain == kOut;
    if (is_last && !visit.packet.is_answer) trail.destination = visit.packet.destination;
    return;
  }
  std::vector<TraceStep>& steps = visit.packet.is_answer ? trail.answer : trail.request;
  if (steps.size() >= kMostSteps) return;
  if (!visit.packet.is_answer) trail.mark = step.mark;
  steps.push_back(std::move(step));
}

void Follower::read() {
  for (TraceStep& step : trace_.take()) note(std::move(step));
}

std::map<std::uint16_t, Trail> Follower::trails() {
  read();
  visits_.clear();
  return std::exchange(trails_, {});
}

}  // namespace tool::probe
