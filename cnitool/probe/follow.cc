#include "cnitool/probe/follow.h"

#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "netlink/route/socket.h"
#include "netlink/types/error.h"

namespace tool::probe {

namespace {

using netlink::nf::Batch;
using netlink::nf::ChainId;
using netlink::nf::TableFamily;
using netlink::nf::TraceFilter;
using netlink::nf::TraceStep;

// Where ARP has addresses, of RFC 826 for Ethernet and IPv4, and neighbour discovery its target.
constexpr std::uint32_t kArpSender = 14, kArpTarget = 24, kNdTarget = 8;
constexpr std::size_t kMostAsked = 16;  // each is a rule that every packet passes

std::vector<TraceFilter> filters_with(const Mark& mark, const std::vector<Ip>& asked) {
  std::vector<TraceFilter> out = filters_for(mark);
  for (const Ip& ip : asked) {
    const Bytes bytes(ip.data(), ip.data() + ip.size());
    if (ip.is_v4()) {
      for (const std::uint32_t offset : {kArpSender, kArpTarget}) out.push_back({0, offset, bytes});
    } else {
      out.push_back({IPPROTO_ICMPV6, kNdTarget, bytes});
    }
  }
  return out;
}

/// A chain of the table in each namespace, and what it says of packets that it sees.
struct OwnChain {
  TableFamily family;
  const char* name;
  std::uint32_t hook;  // NF_INET_*, NF_BR_*, NF_ARP_*, NF_NETDEV_*
  bool is_first;       // else behind all others
  bool traces;
  Hook sight;
};
constexpr char kTranslated[] = "translated";  // behind the NAT of prerouting
constexpr OwnChain kChains[] = {
    {TableFamily::kInet, "prerouting", 0, true, true, Hook::kIn},
    {TableFamily::kInet, kTranslated, 0, false, true, Hook::kIn},
    {TableFamily::kInet, "local", 1, true, false, Hook::kLocal},
    {TableFamily::kInet, "input", 1, false, false, Hook::kTaken},
    {TableFamily::kInet, "forward", 2, true, false, Hook::kForward},
    {TableFamily::kInet, "output", 3, true, true, Hook::kOut},
    {TableFamily::kInet, "postrouting", 4, false, false, Hook::kLeaves},
    {TableFamily::kBridge, "prerouting", 0, true, true, Hook::kBridgeIn},
    {TableFamily::kBridge, "input", 1, true, false, Hook::kBridgeLocal},
    {TableFamily::kBridge, "forward", 2, true, false, Hook::kBridgeForward},
    {TableFamily::kBridge, "output", 3, true, true, Hook::kNone},
    {TableFamily::kBridge, "postrouting", 4, false, false, Hook::kBridgeOut},
    {TableFamily::kArp, "input", 0, true, true, Hook::kNone},
    {TableFamily::kArp, "output", 1, true, true, Hook::kNone}};
constexpr std::int32_t kFirst = -500, kLast = 1000;

Batch chains_of(TableFamily family, const std::vector<TraceFilter>& filters) {
  Batch out;
  const auto add = [&](const Batch& more) {
    for (const auto& change : more.changes()) {
      std::visit(
          [&](const auto& one) {
            if constexpr (requires { out.add(one); }) out.add(one);
          },
          change);
    }
  };
  out.add(netlink::nf::Table{
      .family = family, .name = Follower::kTable, .comment = "traces probes", .is_owned = true});
  for (const OwnChain& one : kChains) {
    if (one.family != family) continue;
    add(netlink::nf::tracing_chain(
        {family, Follower::kTable, one.name},
        {.type = "filter", .number = one.hook, .priority = one.is_first ? kFirst : kLast},
        one.traces ? filters : std::vector<TraceFilter>()));
  }
  return out;
}

// The kernels that have no hook, or no such link any more, go without.
void try_commit(netlink::nf::NfSocket& socket, const Batch& batch) {
  try {
    socket.commit(batch);
  } catch (const netlink::Error&) {
  }
}

constexpr char kIngress[] = "ingress ", kEgress[] = "egress ";

// Each by itself: a link may be gone, and the hook of egress is new in Linux 5.16.
void follow_links(netlink::nf::NfSocket& socket, const std::vector<std::string>& links,
                  const std::vector<TraceFilter>& filters) {
  Batch table;
  table.add(netlink::nf::Table{
      .family = TableFamily::kNetdev, .name = Follower::kTable, .is_owned = true});
  try_commit(socket, table);
  for (const std::string& link : links) {
    const auto chain = [&](const std::string& way) {
      return ChainId{TableFamily::kNetdev, Follower::kTable, way + link};
    };
    try_commit(socket,
               netlink::nf::tracing_chain(
                   chain(kIngress),
                   {.type = "filter", .number = 0, .priority = kFirst, .device = link}, filters));
    try_commit(socket, netlink::nf::tracing_chain(
                           chain(kEgress),
                           {.type = "filter", .number = 1, .priority = kLast, .device = link}, {}));
  }
}

// Whose MAC address a packet asks or answers for.
std::optional<Ip> resolved_by(const TraceStep& step) {
  const Bytes& network = step.network;
  constexpr std::size_t kArpSize = 28, kNdSize = 24;
  const bool is_arp = network.size() >= kArpSize && network[0] == 0 && network[1] == 1 &&
                      network[4] == 6 && network[5] == 4;
  if (is_arp) return Ip::from_bytes(&network[network[7] == 2 ? kArpSender : kArpTarget], 4);
  const bool is_v6 = !network.empty() && network[0] >> 4 == 6;
  const Bytes& transport = step.transport;
  if (!is_v6 || transport.size() < 20 || network.size() < 40) return std::nullopt;
  const bool is_nd = network[6] == IPPROTO_ICMPV6 &&
                     (transport[0] == ND_NEIGHBOR_SOLICIT || transport[0] == ND_NEIGHBOR_ADVERT);
  if (!is_nd) return std::nullopt;
  Bytes target(transport.begin() + kNdTarget, transport.end());
  target.resize(kNdSize - kNdTarget);  // a trace has the first 20 bytes: all but the last four
  return Ip::from_bytes(target.data(), target.size());
}

// The one of these that it is, of IPv6 by as much as a trace has.
std::optional<Ip> known_among(const std::vector<Ip>& asked, const std::optional<Ip>& ip) {
  constexpr unsigned kSeen = 96;
  if (!ip) return std::nullopt;
  for (const Ip& one : asked) {
    if (one == *ip || (!one.is_v4() && !ip->is_v4() && one.masked(kSeen) == ip->masked(kSeen))) {
      return one;
    }
  }
  return std::nullopt;
}

}  // namespace

Follower::Follower(const Mark& mark, const std::vector<Sent>& sent, const std::vector<Post>& posts,
                   std::vector<Ip> asked)
    : mark_(mark), sent_(sent), asked_(std::move(asked)), ready_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!ready_) throw netlink::Error("follow probes", errno);
  if (asked_.size() > kMostAsked) asked_.clear();
  for (std::size_t i = 0; i < posts.size(); ++i) {
    try {
      listen(i, posts[i]);
    } catch (const netlink::Error&) {
      if (i == 0) throw;
    }
  }
}

void Follower::listen(std::size_t place, const Post& post) {
  const netlink::NetNs::Entered there(post.ns);
  Ear ear{place, {}, {}};
  const auto filters = filters_with(mark_, asked_);
  ear.socket.commit(chains_of(TableFamily::kInet, filters));
  if (place == 0) try_commit(ear.socket, chains_of(TableFamily::kBridge, filters));
  if (!asked_.empty()) try_commit(ear.socket, chains_of(TableFamily::kArp, filters));
  follow_links(ear.socket, post.links, filters);
  for (const netlink::Link& one : netlink::RouteSocket().links()) ear.names[one.index] = one.name;
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(ready_.get(), EPOLL_CTL_ADD, ear.trace.fd(), &event) != 0) {
    throw netlink::Error("follow probes", errno);
  }
  ears_.push_back(std::move(ear));
}

bool Follower::is_complete() const {
  return std::ranges::all_of(ears_, [](const Ear& one) { return one.trace.is_complete(); });
}

void Follower::note_own(const Ear& ear, const TraceStep& step, const Visit& visit) {
  if (!visit.packet) return;
  Trail& trail = trails_[visit.packet->number];
  const auto name_of = [&](int index) {
    const auto found = ear.names.find(index);
    return found == ear.names.end() ? std::string() : found->second;
  };
  Sight sight{ear.place, Hook::kNone, name_of(visit.in), name_of(visit.out)};
  const std::string& chain = step.chain.chain;
  if (chain.starts_with(kIngress)) sight.hook = Hook::kDeviceIn;
  if (chain.starts_with(kEgress)) sight.hook = Hook::kDeviceOut;
  for (const OwnChain& one : kChains) {
    if (one.family == step.chain.family && chain == one.name) sight.hook = one.sight;
  }
  const bool is_end =
      sight.hook == Hook::kTaken || sight.hook == Hook::kLeaves || chain == kTranslated;
  if (is_end && ear.place == 0 && !visit.packet->is_answer) {
    trail.destination = visit.packet->destination;
  }
  std::vector<Sight>& sights = visit.packet->is_answer ? trail.answer_sights : trail.request_sights;
  constexpr std::size_t kMostSights = 200;
  if (sight.hook != Hook::kNone && sights.size() < kMostSights) sights.push_back(std::move(sight));
}

// A bridge may hand over a copy of a packet whose destination was translated: it has another number
// in traces, and the source of one that was seen before.
bool Follower::is_sent(const Seen& seen) const {
  if (seen.number >= sent_.size()) return false;
  const Sent& sent = sent_[seen.number];
  if (is_of(sent, seen)) return true;
  return !seen.is_answer && trails_.contains(seen.number) && sent.packet.source == seen.source;
}

void Follower::note(Ear& ear, TraceStep step) {
  constexpr std::size_t kMostVisits = 100'000, kMostSteps = 1'000;  // a pod may flood with these
  if (ear.visits.size() > kMostVisits) ear.visits.clear();
  if (!step.network.empty()) {
    auto seen = seen_in(mark_, step.network, step.transport);
    // Rules replace the addresses of a packet that is known already.
    if (seen && !is_sent(*seen) && !ear.visits.contains(step.packet)) seen.reset();
    const auto resolved = seen ? std::nullopt : known_among(asked_, resolved_by(step));
    if (seen || resolved) ear.visits[step.packet] = {seen, resolved, step.in, step.out};
  }
  const auto found = ear.visits.find(step.packet);
  if (found == ear.visits.end()) return;
  const Visit& visit = found->second;
  if (step.chain.table == kTable) return note_own(ear, step, visit);
  step.in = visit.in;
  step.out = visit.out;
  if (!visit.packet) {
    if (resolutions_.size() < kMostSteps) {
      resolutions_.push_back({{ear.place, std::move(step)}, *visit.resolved});
    }
    return;
  }
  Trail& trail = trails_[visit.packet->number];
  std::vector<PlacedStep>& steps = visit.packet->is_answer ? trail.answer : trail.request;
  if (steps.size() >= kMostSteps) return;
  if (ear.place == 0) (visit.packet->is_answer ? trail.answer_mark : trail.mark) = step.mark;
  steps.push_back({ear.place, std::move(step)});
}

void Follower::read() {
  for (Ear& ear : ears_) {
    for (TraceStep& step : ear.trace.take()) note(ear, std::move(step));
  }
}

std::map<std::uint16_t, Trail> Follower::trails() {
  read();
  for (Ear& ear : ears_) ear.visits.clear();
  return std::exchange(trails_, {});
}

}  // namespace tool::probe
