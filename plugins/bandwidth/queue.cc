#include "plugins/bandwidth/queue.h"

#include <algorithm>
#include <cerrno>

#include "libcni/common/error.h"
#include "netlink/tc/list.h"

namespace bandwidth {

namespace {

using cni::cat;
using netlink::Link;
using netlink::RouteRequest;
using netlink::RouteSocket;
namespace tc = netlink::tc;

// The handles of the reference plugin, and those of the qdiscs below.
constexpr tc::Handle kOurs = tc::handle(1), kFifo = tc::handle(2), kFair = tc::handle(3),
                     kUnshapedFifo = tc::handle(4);
constexpr std::uint16_t kShapedMinor = 0x30, kUnshapedMinor = 1;
constexpr tc::Handle kShaped = tc::handle(1, kShapedMinor),
                     kUnshaped = tc::handle(1, kUnshapedMinor);
constexpr std::string_view kFifoKind = "bfifo", kFairKind = "fq_codel";
constexpr std::uint16_t kPriority4 = 16, kPriority6 = 15;

tc::Qdisc root_of(const Plan& plan) {
  if (plan.subnets.list.empty()) return {.handle = kOurs, .kind = tbf_of(plan.shape)};
  return {.handle = kOurs, .kind = tc::Htb{plan.subnets.shaped ? kUnshapedMinor : kShapedMinor}};
}

// Below the bucket, or below the class with the limit.
tc::Handle waiting_place(const Plan& plan) {
  return plan.subnets.list.empty() ? tc::handle(1, 1) : kShaped;
}

std::vector<tc::HtbClass> classes_of(const Plan& plan) {
  constexpr std::uint64_t kUnlimited = 100'000'000'000;  // bytes/s
  constexpr std::uint32_t kSome = 156'250;               // 10 ms
  const Shape& shape = plan.shape;
  return {{tc::kRoot, kShaped, shape.rate, shape.rate * 2, shape.buffer, shape.buffer},
          {tc::kRoot, kUnshaped, kUnlimited, kUnlimited, kSome, kSome}};
}

std::vector<tc::ToClass> filters_of(const Plan& plan) {
  std::vector<tc::ToClass> out;
  for (const netlink::Cidr& network : plan.subnets.list) {
    out.push_back({.parent = kOurs,
                   .flow = plan.subnets.shaped ? kShaped : kUnshaped,
                   .priority = network.ip.is_v4() ? kPriority4 : kPriority6,
                   .network = network,
                   .end = plan.remote});
  }
  return out;
}

// htb does not split large packets, and a sender needs several of them in flight.
tc::Fifo fifo_of(const Plan& plan) {
  if (plan.subnets.list.empty()) return {plan.shape.limit};
  return {std::max(plan.shape.limit, 4 * kLargestPacket)};
}

bool is_ours(const tc::QdiscState& state) {
  return state.handle == kOurs &&
         (state.as<tc::Tbf>() != nullptr || state.as<tc::Htb>() != nullptr);
}

void refuse_foreign(const Link& link, const tc::QdiscState& state) {
  if (is_ours(state)) return;
  throw cni::Error(cni::Code::kInternal,
                   cat("limit '", link.name, "': the root qdisc is '", state.kind, "' with handle ",
                       str(state.handle), ", which belongs to another program"));
}

// An existing qdisc can be changed: htb with the same default class, or tbf whose queued packets
// all fit into the new bucket.
bool can_change(const tc::QdiscState& state, const tc::Qdisc& wanted) {
  if (const tc::Htb* const htb = state.as<tc::Htb>()) return wanted.kind == tc::Kind(*htb);
  const tc::Tbf* const there = state.as<tc::Tbf>();
  const tc::Tbf* const bucket = std::get_if<tc::Tbf>(&wanted.kind);
  return there != nullptr && bucket != nullptr && tc::can_become(*there, *bucket);
}

std::vector<RouteRequest> removals(const Link& link) {
  std::vector<RouteRequest> out;
  out.push_back(tc::remove(link, {.handle = kOurs, .kind = tc::Tbf{}}));
  out.push_back(tc::remove(link, {.handle = kOurs, .kind = tc::Htb{}}));
  return out;
}

// The root; true if it existed before.
bool put_root(RouteSocket& socket, const Link& link, const tc::Qdisc& wanted) {
  const auto refusal = socket.attempt(tc::add(link, wanted));
  if (!refusal) return false;
  if (refusal->error() != EEXIST) throw netlink::Error(*refusal);
  const auto there = tc::qdisc(socket, link, tc::kRoot);
  if (there) refuse_foreign(link, *there);
  if (!there || !can_change(*there, wanted)) {
    auto requests = removals(link);
    requests.push_back(tc::add(link, wanted));
    socket.send(requests);
    return false;
  }
  // The kernel cannot change an htb root qdisc.
  if (std::holds_alternative<tc::Tbf>(wanted.kind)) socket.send(tc::replace(link, wanted));
  return true;
}

void add_tree(const Link& link, const Plan& plan, bool was_there, std::vector<RouteRequest>& out) {
  constexpr std::uint32_t kPlenty = 16U << 20;
  for (const tc::HtbClass& one : classes_of(plan)) out.push_back(tc::replace(link, one));
  out.push_back(
      tc::replace(link, {.parent = kUnshaped, .handle = kUnshapedFifo, .kind = tc::Fifo{kPlenty}}));
  if (was_there) {
    for (const auto priority : {kPriority4, kPriority6}) {
      out.push_back(tc::remove(link, tc::FilterGroup{kOurs, priority}));
    }
  }
  for (const tc::ToClass& filter : filters_of(plan)) out.push_back(tc::add(link, filter));
}

// Sends them in parts, because the answers to one message must fit into the socket's buffer.
void send_in_parts(RouteSocket& socket, std::vector<RouteRequest> requests) {
  constexpr std::size_t kMax = 64;
  for (std::size_t i = 0; i < requests.size(); i += kMax) {
    const auto from = requests.begin() + static_cast<std::ptrdiff_t>(i);
    const auto count = static_cast<std::ptrdiff_t>(std::min(kMax, requests.size() - i));
    socket.send(std::vector<RouteRequest>(std::make_move_iterator(from),
                                          std::make_move_iterator(from + count)));
  }
}

// False if the kernel lacks it and the config does not require it.
bool put_fair(RouteSocket& socket, const Link& link, const Plan& plan) {
  const auto refusal = socket.attempt(
      tc::replace(link, {.parent = waiting_place(plan), .handle = kFair, .kind = plan.fair}));
  if (!refusal) return true;
  if (refusal->error() != ENOENT) throw netlink::Error(*refusal);
  if (!plan.queue) return false;
  throw cni::Error(cni::Code::kInvalidConfig,
                   "queue: \"fair\" needs the qdisc fq_codel, which this kernel lacks",
                   refusal->what());
}

template <class Number>
std::optional<std::string> differs(const char* complaint, Number seen, Number wanted) {
  if (seen == wanted) return std::nullopt;
  return cat(complaint, ": ", seen, ", and not ", wanted);
}

std::optional<std::string> flaw_of_bucket(const tc::Tbf& seen, const Plan& plan) {
  const tc::Tbf wanted = tbf_of(plan.shape);
  if (plan.reference && seen == tbf_of(*plan.reference)) return std::nullopt;
  if (auto flaw = differs("Rate doesn't match", seen.rate, wanted.rate)) return flaw;
  if (auto flaw = differs("Limit doesn't match", seen.limit, wanted.limit)) return flaw;
  if (auto flaw = differs("Buffer doesn't match", seen.buffer, wanted.buffer)) return flaw;
  // The reference's cuts nothing up.
  if (!plan.queue && seen.largest == 0) return std::nullopt;
  return differs("The largest packet doesn't match", seen.largest, wanted.largest);
}

bool same(const tc::HtbClass& seen, const tc::HtbClass& wanted) {
  return seen.id == wanted.id && seen.rate == wanted.rate && seen.ceil == wanted.ceil &&
         seen.buffer == wanted.buffer;
}

std::optional<std::string> flaw_of_tree(RouteSocket& socket, const Link& link, const Plan& plan) {
  const auto classes = tc::htb_classes(socket, link);
  for (const tc::HtbClass& wanted : classes_of(plan)) {
    if (std::ranges::none_of(classes,
                             [&wanted](const tc::HtbClass& seen) { return same(seen, wanted); })) {
      return cat("Rate doesn't match: class ", str(wanted.id));
    }
  }
  const auto filters = tc::filters(socket, link, kOurs);
  for (const tc::ToClass& wanted : filters_of(plan)) {
    const auto keys = tc::keys_of(wanted.network, wanted.end);
    if (std::ranges::none_of(filters, [&](const tc::FilterState& seen) {
          return seen.keys == keys && seen.flow == wanted.flow;
        })) {
      return cat("no filter for the subnet ", wanted.network.str());
    }
  }
  return std::nullopt;
}

// The bucket's own fifo is not shown.
std::optional<std::string> flaw_of_waiting(RouteSocket& socket, const Link& link,
                                           const Plan& plan) {
  const auto seen = tc::qdisc(socket, link, waiting_place(plan));
  const std::string_view kind = seen ? std::string_view(seen->kind) : kFifoKind;
  if (kind == kFifoKind ? plan.queue != Queue::kFair
                        : kind == kFairKind && plan.queue != Queue::kFifo) {
    return std::nullopt;
  }
  return cat("the qdisc below the limit of '", link.name, "' is ", kind);
}

}  // namespace

Plan plan_for(const Conf& conf, Direction direction, unsigned mtu, const tc::Ticks& ticks) {
  const bool egress = direction == Direction::kEgress;
  const Limit& limit = *(egress ? conf.egress : conf.ingress);
  Plan out{.shape = shape_of(limit, conf, mtu, ticks),
           .queue = conf.queue,
           .subnets = conf.subnets,
           .remote = egress ? tc::End::kDestination : tc::End::kSource};
  if (!conf.latency && !conf.burst_time) out.reference = wrapped_shape_of(limit, ticks);
  out.fair = fq_codel_of(out.shape, conf, mtu);
  return out;
}

bool put(RouteSocket& socket, const Link& link, const Plan& plan) {
  tc::Qdisc root = root_of(plan);
  const bool was_there = put_root(socket, link, root);
  const bool is_tree = std::holds_alternative<tc::Htb>(root.kind);
  std::vector<RouteRequest> requests;
  if (is_tree) add_tree(link, plan, was_there, requests);
  const tc::Qdisc fifo{waiting_place(plan), kFifo, fifo_of(plan)};
  const auto waiting = was_there ? tc::qdisc(socket, link, fifo.parent) : std::nullopt;
  const std::string kind = waiting ? waiting->kind : "";
  // A bucket has a fifo of its own, which is not shown; a class has one of a single packet.
  const bool may_stay = kind == kFairKind ? plan.queue != Queue::kFifo
                                          : !is_tree && (kind.empty() || kind == kFifoKind);
  if (!may_stay) requests.push_back(tc::replace(link, fifo));
  send_in_parts(socket, std::move(requests));
  if (plan.queue == Queue::kFifo || put_fair(socket, link, plan)) return true;
  // The bucket cuts packets for the turns of fair queueing, which the kernel does not have.
  tc::Tbf* const bucket = std::get_if<tc::Tbf>(&root.kind);
  if (bucket != nullptr && bucket->largest != 0) {
    bucket->largest = 0;
    socket.send(tc::replace(link, root));
  }
  return false;
}

void remove_queue(RouteSocket& socket, const Link& link) {
  if (link.qdisc == "tbf" || link.qdisc == "htb") socket.send(removals(link));
}

std::optional<std::string> missing(RouteSocket& socket, const Link& link, const Plan& plan) {
  const tc::Qdisc wanted = root_of(plan);
  const auto root = tc::qdisc(socket, link, tc::kRoot);
  if (!root) return cat("Failed to find qdisc: '", link.name, "' has no limit");
  if (root->handle != kOurs || root->kind != tc::name(wanted.kind)) {
    return cat("the root qdisc of '", link.name, "' is ", root->kind, " ", str(root->handle),
               " instead of ", tc::name(wanted.kind), " ", str(kOurs));
  }
  if (const tc::Tbf* const tbf = root->as<tc::Tbf>()) {
    if (auto flaw = flaw_of_bucket(*tbf, plan)) return cat(*flaw, " of '", link.name, "'");
  } else if (root->options != wanted.kind) {
    return cat("htb of '", link.name, "' has another default class");
  } else if (auto flaw = flaw_of_tree(socket, link, plan)) {
    return cat(*flaw, " of '", link.name, "'");
  }
  return flaw_of_waiting(socket, link, plan);
}

}  // namespace bandwidth
