#include "cnitool/probe/segment.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "netlink/address_claim.h"
#include "netlink/route/socket.h"
#include "netlink/types/error.h"

namespace tool::probe {

namespace {

using netlink::Mac;
using netlink::NetNs;
using netlink::SegmentSocket;

constexpr auto kPatience = std::chrono::milliseconds(300);

struct Wanted {
  std::string whose;
  Mac expected = {};
  bool is_own = false;  ///< the node's, which asks: it does not answer itself
};
using Addresses = std::map<Ip, Wanted>;

/// A link from which a segment is asked.
struct Post {
  NetNs ns;
  netlink::Link link;
};

void add_addresses(const Subject& one, const NodeFacts& node, Addresses& out) {
  const Mac mac = mac_of(one).value_or(Mac{});
  for (const cni::Address& address : one.result.ips) {
    if (!address.cidr.ip.is_v4()) continue;
    if (!mac.is_zero()) out[address.cidr.ip] = {one.name, mac};
    if (!address.gateway || !address.gateway->is_v4() || address.cidr.prefix == 32) continue;
    out.try_emplace(*address.gateway,
                    Wanted{"the gateway", Mac{}, one.is_routed && node.has(*address.gateway)});
  }
}

// The bridge of the pod, or its own interface on a wire of the node's; nothing for ptp.
std::optional<Post> post_of(const Subject& one) {
  if (!one.is_routed) {
    const auto ns = NetNs::find(one.netns);
    auto link = ns ? netlink::RouteSocket(*ns).find(one.key.ifname) : std::nullopt;
    return link ? std::optional(Post{*ns, *std::move(link)}) : std::nullopt;
  }
  netlink::RouteSocket node;
  for (const cni::Address& address : one.result.ips) {
    const auto path = address.cidr.ip.is_v4() ? node.path_to(address.cidr.ip) : std::nullopt;
    auto link = path ? node.find(path->link) : std::nullopt;
    if (link && link->kind == "bridge") return Post{NetNs::current(), *std::move(link)};
  }
  return std::nullopt;
}

void ask(const Post& post, const Addresses& addresses, std::map<Ip, std::set<Mac>>& owners) {
  if (post.link.mac.is_zero()) return;
  SegmentSocket socket(post.ns, post.link.index, SegmentSocket::Protocol::kArp);
  for (const auto& [ip, wanted] : addresses) socket.send(netlink::arp_probe(post.link.mac, ip));
  const auto end = std::chrono::steady_clock::now() + kPatience;
  socket.claim_until(end, [&](const netlink::NeighbourClaim& claim) {
    if (addresses.contains(claim.address) && claim.owner != post.link.mac) {
      owners[claim.address].insert(claim.owner);
    }
    return false;
  });
}

void judge(const std::string& network, const Addresses& addresses,
           const std::map<Ip, std::set<Mac>>& owners, std::vector<Duplicate>& out) {
  for (const auto& [ip, found] : owners) {
    const Wanted& wanted = addresses.at(ip);
    std::vector<Mac> others(found.begin(), found.end());
    std::erase(others, wanted.expected);
    const std::size_t allowed = wanted.expected.is_zero() && !wanted.is_own ? 1 : 0;
    if (others.size() <= allowed) continue;
    out.push_back({network, wanted.whose, ip, wanted.expected, others});
  }
}

}  // namespace

std::vector<Duplicate> duplicates(const std::vector<Subject>& subjects,
                                  const std::vector<bool>& asked, const NodeFacts& node) {
  std::map<std::string, std::vector<const Subject*>> networks;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    if (asked[i]) networks[subjects[i].key.network].push_back(&subjects[i]);
  }
  std::vector<Duplicate> out;
  for (const auto& [network, members] : networks) {
    Addresses addresses;
    for (const Subject* one : members) add_addresses(*one, node, addresses);
    std::map<Ip, std::set<Mac>> owners;
    // A pod does not ask itself: a second one does.
    const std::size_t posts = members.front()->is_routed ? 1 : 2;
    for (std::size_t i = 0; i < std::min(posts, members.size()); ++i) {
      if (const auto post = post_of(*members[i])) ask(*post, addresses, owners);
    }
    judge(network, addresses, owners, out);
  }
  return out;
}

}  // namespace tool::probe
