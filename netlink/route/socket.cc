#include "netlink/route/socket.h"

#include <linux/if_bridge.h>
#include <linux/net_namespace.h>
#include <linux/netconf.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "netlink/ack.h"
#include "netlink/route/mac_holder.h"
#include "netlink/types/hints.h"

namespace netlink {

namespace {

// The answers to as many fit into the socket's buffer (net.core.rmem_default) many times.
constexpr std::ptrdiff_t kMaxAtOnce = 64;

Channel channel_in(const NetNs& where) {
  const NetNs::Entered entered(where);
  return Channel(NETLINK_ROUTE);
}

unsigned char domain_of(Family family) { return family == Family::kIpv4 ? AF_INET : AF_INET6; }

bool is_unicast(const Reply& reply) { return reply.fixed<rtmsg>().rtm_type == RTN_UNICAST; }

bool tolerates(const RouteRequest& request, int error) {
  return error == 0 || std::ranges::find(request.tolerated, error) != request.tolerated.end();
}

// The module that the kernel lacks, by the words of rtnl_newlink() in net/core/rtnetlink.c,
// qdisc_create() in net/sched/sch_api.c, tcf_proto_lookup_ops() in cls_api.c and
// tc_action_load_ops() in act_api.c; empty: it lacks none.
std::string_view missing_module(const RouteRequest& request, const Ack& ack) {
  const auto says = [&ack](const char* words) { return ack.text.find(words) != std::string::npos; };
  if (says("TC action module")) return "act_mirred";  // filters here have no other action
  const bool is_missing = says("Unknown device type") || says("qdisc kind is unknown") ||
                          says("TC classifier not found");
  return is_missing ? std::string_view(request.module) : std::string_view();
}

// Adds hints that the kernel does not give.
Error refusal(const RouteRequest& request, const Ack& ack, const NetNs& where) {
  std::string text = ack.text;
  const auto hint = [&text](const std::string& more) {
    text += cat(text.empty() ? "" : "; ", more);
  };
  const std::string_view module = missing_module(request, ack);
  if (!module.empty()) hint(load_hint(module));
  if (request.mac && ack.error == EADDRINUSE) {
    hint(cat("the MAC address ", request.mac->mac.str(), " is in use",
             holder_of(where, *request.mac)));
  }
  return {request.operation, ack.error, text};
}

}  // namespace

RouteSocket::RouteSocket() : ns_(NetNs::current()), channel_(NETLINK_ROUTE) {}
RouteSocket::RouteSocket(const NetNs& where) : ns_(where), channel_(channel_in(where)) {}

void RouteSocket::transmit(std::vector<RouteRequest>& requests) {
  std::vector<iovec> parts;
  for (RouteRequest& request : requests) {
    request.message.set_sequence(sequence_++);
    parts.push_back(part_of(request.message));
  }
  channel_.send(std::move(parts), requests.front().operation);
}

std::uint32_t RouteSocket::transmit(Message& message, const std::string& operation) {
  message.set_sequence(sequence_);
  channel_.send(message, operation);
  return sequence_++;
}

std::optional<Error> RouteSocket::collect(const std::vector<RouteRequest>& requests,
                                          std::uint32_t first) {
  std::optional<Error> failure;
  for (std::size_t answered = 0; answered < requests.size();) {
    for (const Reply& reply : Replies{channel_.receive(requests.front().operation)}) {
      const auto ack = decode_ack(reply);
      if (!ack || ack->sequence - first >= requests.size()) continue;
      ++answered;
      const RouteRequest& request = requests[ack->sequence - first];
      if (!tolerates(request, ack->error) && !failure) failure.emplace(refusal(request, *ack, ns_));
    }
  }
  return failure;
}

std::optional<Error> RouteSocket::try_send(std::vector<RouteRequest>& requests) {
  const std::uint32_t first = sequence_;
  transmit(requests);
  return collect(requests, first);
}

void RouteSocket::send(std::vector<RouteRequest> requests) {
  std::optional<Error> failure;
  for (auto rest = requests.begin(); rest != requests.end();) {
    const auto count = std::min(kMaxAtOnce, requests.end() - rest);
    std::vector<RouteRequest> some(std::make_move_iterator(rest),
                                   std::make_move_iterator(rest + count));
    if (auto refused = try_send(some); refused && !failure) failure.emplace(*std::move(refused));
    rest += count;
  }
  if (failure) throw Error(*failure);
}

std::optional<Error> RouteSocket::attempt(RouteRequest request) {
  std::vector<RouteRequest> one;
  one.push_back(std::move(request));
  return try_send(one);
}

void RouteSocket::send(RouteRequest request) {
  std::vector<RouteRequest> one;
  one.push_back(std::move(request));
  send(std::move(one));
}

std::optional<View> RouteSocket::receive_whole(const std::string& operation) {
  try {
    return channel_.receive(operation);
  } catch (const Error& e) {
    if (e.error() != EMSGSIZE) throw;
    return std::nullopt;
  }
}

void RouteSocket::ask(RouteRequest request, const Handler& handler) {
  std::uint32_t sequence = transmit(request.message, request.operation);
  for (bool answered = false; !answered;) {
    const auto datagram = receive_whole(request.operation);
    if (!datagram) sequence = transmit(request.message, request.operation);
    for (const Reply& reply : Replies{datagram.value_or(View{})}) {
      if (reply.sequence() != sequence) continue;
      answered = true;
      if (const auto ack = decode_ack(reply)) {
        if (!tolerates(request, ack->error)) throw Error(request.operation, ack->error, ack->text);
      } else {
        handler(reply);
      }
    }
  }
}

std::optional<Path> RouteSocket::path_to(const Ip& destination) {
  std::optional<Path> path;
  ask(path_query(destination), [&](const Reply& reply) {
    if (reply.type() == RTM_NEWROUTE) path = decode_path(reply);
  });
  return path;
}

std::optional<MatchedRoute> RouteSocket::match(const PacketPath& packet) {
  std::optional<MatchedRoute> out;
  ask(match_query(packet), [&](const Reply& reply) {
    if (reply.type() == RTM_NEWROUTE) out = decode_match(reply);
  });
  return out;
}

std::optional<bool> RouteSocket::forwards(Family family) {
  const netconfmsg head{.ncm_family = domain_of(family)};
  Message message(RTM_GETNETCONF, 0, head);
  message.put_u32(NETCONFA_IFINDEX, static_cast<std::uint32_t>(NETCONFA_IFINDEX_ALL));
  std::optional<bool> out;
  ask({"ask whether packets are forwarded", std::move(message), {EOPNOTSUPP, EINVAL, ENODEV}},
      [&](const Reply& reply) {
        const Attribute found = reply.attributes(sizeof head).find(NETCONFA_FORWARDING);
        if (!found.value.empty()) out = found.u32() != 0;
      });
  return out;
}

std::optional<int> RouteSocket::nsid(const NetNs& ns) {
  const rtgenmsg head{.rtgen_family = AF_UNSPEC};
  Message message(RTM_GETNSID, 0, head);
  message.put_u32(NETNSA_FD, static_cast<std::uint32_t>(ns.fd()));
  std::optional<int> out;
  ask({"ask for the ID of a network namespace", std::move(message)}, [&](const Reply& reply) {
    const Attribute found = reply.attributes(sizeof head).find(NETNSA_NSID);
    const int id = found.as<int>();
    if (!found.value.empty() && id != NETNSA_NSID_NOT_ASSIGNED) out = id;
  });
  return out;
}

bool RouteSocket::has_namespace(int nsid) {
  const rtgenmsg head{.rtgen_family = AF_UNSPEC};
  Message message(RTM_GETNSID, 0, head);
  message.put_u32(NETNSA_NSID, static_cast<std::uint32_t>(nsid));
  try {
    ask({"look up the ID of a network namespace", std::move(message)}, [](const Reply&) {});
    return true;
  } catch (const Error& e) {
    return e.error() != ENOENT;  // EINVAL before Linux 4.20
  }
}

std::uint64_t RouteSocket::cookie() const noexcept {
  std::uint64_t out = 0;
  socklen_t size = sizeof out;
  return ::getsockopt(channel_.fd(), SOL_SOCKET, SO_NETNS_COOKIE, &out, &size) == 0 ? out : 0;
}

int RouteSocket::ensure_nsid(const NetNs& ns) {
  if (const auto known = nsid(ns)) return *known;
  const rtgenmsg head{.rtgen_family = AF_UNSPEC};
  Message message(RTM_NEWNSID, NLM_F_ACK, head);
  message.put_u32(NETNSA_FD, static_cast<std::uint32_t>(ns.fd()));
  message.put_struct(NETNSA_NSID, std::int32_t{-1});  // the next free one
  const std::string operation = "give a network namespace an ID";
  send(RouteRequest{operation, std::move(message), {EEXIST}});  // another call was quicker
  const auto given = nsid(ns);
  if (!given) throw Error(operation, ENOENT);
  return *given;
}

// False where the kernel says that the table changed under the dump, or a part of it was lost. A
// family that the kernel lacks (CONFIG_IPV6=n, ipv6.disable=1) has nothing.
bool RouteSocket::dump_once(const char* operation, Message& message, const Handler& handler) {
  const std::uint32_t sequence = transmit(message, operation);
  bool consistent = true;
  for (;;) {
    const auto datagram = receive_whole(operation);
    if (!datagram) consistent = false;
    for (const Reply& reply : Replies{datagram.value_or(View{})}) {
      if (reply.sequence() != sequence) continue;
      if ((reply.flags() & NLM_F_DUMP_INTR) != 0) consistent = false;
      if (const auto ack = decode_ack(reply)) {
        if (ack->error == 0 || ack->error == EAFNOSUPPORT) return consistent;
        throw Error(operation, ack->error, ack->text);
      }
      handler(reply);
    }
  }
}

void RouteSocket::dump(const char* operation, Message message, const Handler& handler) {
  message.add_flags(NLM_F_DUMP);
  Bytes replies;
  for (int attempt = 0; attempt < kMaxDumps; ++attempt) {
    replies.clear();
    const bool consistent = dump_once(operation, message, [&replies](const Reply& reply) {
      replies.insert(replies.end(), reply.bytes().begin(), reply.bytes().end());
      replies.resize(aligned(replies.size()));
    });
    if (!consistent) continue;
    for (const Reply& reply : Replies{replies}) handler(reply);
    return;
  }
  throw Error(operation, EAGAIN, "the table kept changing while it was read");
}

bool RouteSocket::knows_kind(std::string_view kind) {
  Message message(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK, ifinfomsg{});
  message.put(IFLA_IFNAME, "/");  // refused after the kind was looked up
  message.nest(IFLA_LINKINFO, [&] { message.put(IFLA_INFO_KIND, kind); });
  try {
    send(RouteRequest{cat("ask for links of kind '", kind, "'"), std::move(message)});
  } catch (const Error& e) {
    return e.error() != EOPNOTSUPP;
  }
  return true;
}

std::vector<LinkAddress> RouteSocket::addresses(const Link& link, std::optional<Family> family) {
  ifaddrmsg head{};
  head.ifa_index = static_cast<std::uint32_t>(link.index);
  if (family) head.ifa_family = domain_of(*family);
  std::vector<LinkAddress> out;
  dump("list addresses", Message(RTM_GETADDR, 0, head), [&](const Reply& reply) {
    if (reply.type() != RTM_NEWADDR) return;
    const LinkAddress address = decode_address(reply);
    const bool is_wanted = !family || address.cidr.ip.family() == *family;
    if (address.link == link.index && is_wanted) out.push_back(address);
  });
  return out;
}

std::vector<LinkAddress> RouteSocket::addresses() {
  std::vector<LinkAddress> out;
  dump("list addresses", Message(RTM_GETADDR, 0, ifaddrmsg{}), [&](const Reply& reply) {
    if (reply.type() == RTM_NEWADDR) out.push_back(decode_address(reply));
  });
  return out;
}

std::vector<LinkRoute> RouteSocket::routes(Family family) {
  std::vector<LinkRoute> out;
  for_each_route(family, [&out](const Reply& reply) {
    if (!is_unicast(reply)) return;
    for (LinkRoute& route : each_hop(decode_route(reply))) out.push_back(std::move(route));
  });
  return out;
}

std::vector<LinkRoute> RouteSocket::refusals(Family family) {
  std::vector<LinkRoute> out;
  for_each_route(family, [&out](const Reply& reply) {
    LinkRoute route = decode_route(reply);
    if (!refusal_of(route).empty()) out.push_back(std::move(route));
  });
  return out;
}

std::vector<LinkRoute> RouteSocket::all_routes(Family family) {
  std::vector<LinkRoute> out;
  for_each_route(family, [&out](const Reply& reply) { out.push_back(decode_route(reply)); });
  return out;
}

std::vector<RouteCopy> RouteSocket::route_copies(Family family) {
  std::vector<RouteCopy> out;
  for_each_route(family, [&out](const Reply& reply) {
    if (!is_unicast(reply)) return;
    for (RouteCopy& route : copy_hops(reply)) out.push_back(std::move(route));
  });
  return out;
}

std::vector<std::uint32_t> RouteSocket::route_tables(Family family) {
  std::vector<std::uint32_t> out;
  for_each_route(family, [&out](const Reply& reply) {
    const std::uint32_t table = decode_route(reply).table;
    if (out.empty() || out.back() != table) out.push_back(table);
  });
  return out;
}

void RouteSocket::for_each_route(Family family, const Handler& handler) {
  rtmsg head{};
  head.rtm_family = domain_of(family);
  // A kernel that lacks the family dumps the others (rtnl_dump_all() in net/core/rtnetlink.c).
  dump("list routes", Message(RTM_GETROUTE, 0, head), [&](const Reply& reply) {
    if (reply.type() != RTM_NEWROUTE) return;
    if (reply.fixed<rtmsg>().rtm_family == head.rtm_family) handler(reply);
  });
}

std::vector<PolicyRule> RouteSocket::policy_rules(Family family) {
  rtmsg head{};  // as long as fib_rule_hdr
  head.rtm_family = domain_of(family);
  std::vector<PolicyRule> out;
  dump("list rules", Message(RTM_GETRULE, 0, head), [&out](const Reply& reply) {
    if (reply.type() == RTM_NEWRULE) out.push_back(decode_policy_rule(reply));
  });
  return out;
}

std::vector<PortVlan> RouteSocket::vlans(const Link& port) {
  br_vlan_msg head{};
  head.family = AF_BRIDGE;
  head.ifindex = static_cast<std::uint32_t>(port.index);
  std::vector<PortVlan> out;
  dump("list VLANs of a bridge port", Message(RTM_GETVLAN, 0, head), [&out](const Reply& reply) {
    for (const PortVlan& vlan : decode_port_vlans(reply)) out.push_back(vlan);
  });
  return out;
}

bool RouteSocket::wait_until(const std::function<bool()>& test, std::chrono::milliseconds limit) {
  if (test()) return true;
  const auto end = std::chrono::steady_clock::now() + limit;
  Channel monitor = channel_in(ns_);
  monitor.join({RTNLGRP_LINK, RTNLGRP_IPV6_IFADDR});
  for (;;) {
    if (test()) return true;  // also once after joining: the change may have come before
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd ready{monitor.fd(), POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(left.count())) < 0 && errno != EINTR) {
      throw Error("wait for changes of links", errno);
    }
    char scratch[8192];
    // Any announcement is a change, whatever it says; so is an overflow.
    while (::recv(ready.fd, scratch, sizeof scratch, MSG_DONTWAIT) > 0) {
    }
  }
}

}  // namespace netlink
