#include "cnitool/probe/segment.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "cnitool/find_by.h"
#include "cnitool/probe/introduction.h"
#include "netlink/address_claim.h"
#include "netlink/route/bridge_port.h"
#include "netlink/route/socket.h"
#include "netlink/sysctl.h"
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
  bool is_own = false;              ///< the node's, which asks: it does not answer itself
  std::optional<Mac> instead = {};  ///< of expected: what the pod's interface has
  const Subject* pod = nullptr;
};
using Addresses = std::map<Ip, Wanted>;
using Owners = std::map<Ip, std::set<Mac>>;  ///< who says that it has an address

/// A link from which a segment is asked.
struct Post {
  NetNs ns;
  netlink::Link link;
};

// What the interface has, not what it was made with; nothing where the pod has ended.
std::optional<Mac> mac_there(const Subject& one) {
  const auto ns = NetNs::find(one.netns);
  const auto link = ns ? netlink::RouteSocket(*ns).find(one.key.ifname) : std::nullopt;
  return link ? std::optional(link->mac) : std::nullopt;
}

// Whether the pod defends it: an address that it does not use yet it would give up.
bool is_in_use(const Subject& one, const Ip& ip) {
  const auto ns = NetNs::find(one.netns);
  if (!ns) return false;
  const auto all = netlink::RouteSocket(*ns).addresses();
  return std::ranges::any_of(all, [&](const netlink::LinkAddress& each) {
    return each.cidr.ip == ip && (ip.is_v4() || !each.tentative);
  });
}

void add_addresses(const Subject& one, const NodeFacts& node, Addresses& out) {
  const Mac wanted = mac_of(one).value_or(Mac{});
  const Mac mac = mac_there(one).value_or(wanted);
  const auto instead = mac == wanted || wanted.is_zero() ? std::nullopt : std::optional(mac);
  for (const cni::Address& address : one.result.ips) {
    const Ip& ip = address.cidr.ip;
    if (!ip.is_v4() && !is_in_use(one, ip)) continue;
    if (!mac.is_zero()) out[ip] = {one.name, wanted.is_zero() ? mac : wanted, false, instead, &one};
    if (!address.gateway || address.cidr.prefix == ip.bits()) continue;
    if (!address.gateway->is_v4() && !node.has(*address.gateway)) continue;
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
    const auto path = node.path_to(address.cidr.ip);
    auto link = path ? node.find(path->link) : std::nullopt;
    if (link && link->kind == "bridge") return Post{NetNs::current(), *std::move(link)};
  }
  return std::nullopt;
}

/// What is asked on a segment, and what it says.
struct Inquiry {
  const Addresses& addresses;
  Owners& owners;
  Pacer& pacer;
};

// By these links: the post's own, or the ports of its bridge, which hears the answers.
void ask(const Post& post, const std::vector<netlink::Link>& ways, const Inquiry& inquiry) {
  const Addresses& addresses = inquiry.addresses;
  if (post.link.mac.is_zero()) return;
  SegmentSocket arp(post.ns, post.link.index, SegmentSocket::Protocol::kArp);
  SegmentSocket discovery(post.ns, post.link.index, SegmentSocket::Protocol::kIpv6);
  bool is_v6_asked = false;
  for (const netlink::Link& way : ways) {
    SegmentSocket sender(post.ns, way.index, SegmentSocket::Protocol::kArp);
    for (const auto& [ip, wanted] : addresses) {
      if (!inquiry.pacer.wait()) return;
      is_v6_asked |= !ip.is_v4();
      sender.send(ip.is_v4() ? netlink::arp_probe(post.link.mac, ip)
                             : netlink::solicitation_probe(post.link.mac, ip));
    }
  }
  auto end = std::chrono::steady_clock::now() + kPatience;
  for (SegmentSocket* const socket : {&arp, &discovery}) {
    if (socket == &discovery && !is_v6_asked) break;
    socket->claim_until(end, [&](const netlink::NeighbourClaim& claim) {
      if (addresses.contains(claim.address) && claim.owner != post.link.mac) {
        inquiry.owners[claim.address].insert(claim.owner);
      }
      return false;
    });
    end += std::chrono::milliseconds(10);  // those have come meanwhile
  }
}

// The ports of a bridge behind which there is more than an interface of a pod that is known.
std::vector<netlink::Link> other_ports(const netlink::Link& bridge,
                                       const std::vector<Subject>& subjects) {
  std::map<int, int> known;  // the pod's end, by the node's
  for (const Subject& one : subjects) {
    const bool is_end = one.link.kind == "veth" && one.link.master == 0;
    if (is_end) known.emplace(one.link.peer_index, one.link.index);
  }
  auto out = netlink::RouteSocket().links();
  std::erase_if(out, [&](const netlink::Link& port) {
    const auto found = known.find(port.index);
    return port.master != bridge.index || !port.up ||
           (found != known.end() && port.peer_index == found->second);
  });
  return out;
}

// Whether the kernel there answers ARP for IPv4 addresses of all its links, as it does by default.
bool answers_for_all(const NetNs& ns, const std::string& ifname) {
  const NetNs::Entered there(ns);
  const auto is_default = [](const std::string& name) {
    return netlink::read_sysctl("net/ipv4/conf/" + name + "/arp_ignore").value_or("0") == "0";
  };
  return is_default("all") && is_default(ifname);
}

// What the pods on the bridge have, as their kernels say.
void read_owners(const std::string& bridge, const std::vector<Subject>& subjects,
                 const Addresses& addresses, Owners& owners) {
  for (const Subject& one : subjects) {
    const auto ns = one.bridge == bridge ? NetNs::find(one.netns) : std::nullopt;
    if (!ns) continue;
    netlink::RouteSocket socket(*ns);
    const auto link = socket.find(one.key.ifname);
    if (!link) continue;
    for (const netlink::LinkAddress& each : socket.addresses()) {
      if (!addresses.contains(each.cidr.ip)) continue;
      const bool is_elsewhere = each.link != link->index;
      const bool is_answered = each.cidr.ip.is_v4() && answers_for_all(*ns, one.key.ifname);
      if (!is_elsewhere || is_answered) owners[each.cidr.ip].insert(link->mac);
    }
  }
}

void ask_many(const Post& post, const std::vector<Subject>& subjects, const Inquiry& inquiry) {
  read_owners(post.link.name, subjects, inquiry.addresses, inquiry.owners);
  Addresses gateways = inquiry.addresses;
  std::erase_if(gateways, [](const auto& one) { return one.second.pod != nullptr; });
  const auto ports = other_ports(post.link, subjects);
  if (ports.size() > kMostBroadcasting) return ask(post, {post.link}, inquiry);
  ask(post, {post.link}, {gateways, inquiry.owners, inquiry.pacer});
  if (!ports.empty()) ask(post, ports, inquiry);
}

// A link that takes no packets is one that probes fail by.
void try_ask(const Post& post, const std::vector<Subject>& subjects, bool is_crowd,
             const Inquiry& inquiry) {
  try {
    is_crowd ? ask_many(post, subjects, inquiry) : ask(post, {post.link}, inquiry);
  } catch (const netlink::Error&) {
  }
}

// Whether a bridge heard the MAC address from a pod or a virtual machine, which may take any.
bool is_behind_pod(const Mac& mac, const netlink::Link& bridge,
                   const std::vector<netlink::Link>& links) {
  netlink::RouteSocket node;
  const auto entries = netlink::fdb_of(node, mac);
  return std::ranges::any_of(entries, [&](const netlink::FdbEntry& one) {
    if (one.is_local || one.master != bridge.index) return false;
    const auto* const port = find_by(links, &netlink::Link::index, one.link);
    return port != nullptr && (port->peer_nsid || port->kind == "tun");
  });
}

// By a link of its own on the segment the node answers for the gateway, too: its kernel answers ARP
// for all its addresses by any link.
void forget_own(const netlink::Link& bridge, const Addresses& addresses, Owners& owners) {
  const auto links = netlink::RouteSocket().links();
  const auto is_own = [&](const Mac& mac) {
    return find_by(links, &netlink::Link::mac, mac) != nullptr &&
           !is_behind_pod(mac, bridge, links);
  };
  for (auto& [ip, found] : owners) {
    if (addresses.at(ip).is_own) std::erase_if(found, is_own);
  }
}

void judge(const std::string& network, const Addresses& addresses, const Owners& owners,
           std::vector<Duplicate>& out) {
  for (const auto& [ip, found] : owners) {
    const Wanted& wanted = addresses.at(ip);
    std::vector<Mac> others(found.begin(), found.end());
    std::erase(others, wanted.instead.value_or(wanted.expected));
    const std::size_t allowed = wanted.expected.is_zero() && !wanted.is_own ? 1 : 0;
    if (others.size() <= allowed && !wanted.instead) continue;
    const bool is_second = others.size() > allowed;
    out.push_back({network, wanted.whose, ip, wanted.expected, others,
                   is_second ? std::nullopt : wanted.instead,
                   wanted.pod == nullptr ? "" : wanted.pod->netns,
                   wanted.pod == nullptr ? "" : wanted.pod->key.ifname});
  }
}

}  // namespace

std::vector<Duplicate> duplicates(const std::vector<Subject>& subjects,
                                  const std::vector<bool>& asked, const NodeFacts& node,
                                  Pacer& pacer) {
  std::map<std::string, std::vector<const Subject*>> networks;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    if (asked[i]) networks[subjects[i].key.network].push_back(&subjects[i]);
  }
  std::vector<Duplicate> out;
  for (const auto& [network, members] : networks) {
    Addresses addresses;
    for (const Subject* one : members) add_addresses(*one, node, addresses);
    Owners owners;
    // A pod does not ask itself: a second one does.
    const std::size_t posts = members.front()->is_routed ? 1 : 2;
    for (std::size_t i = 0; i < std::min(posts, members.size()); ++i) {
      const auto post = post_of(*members[i]);
      if (!post) continue;
      const bool is_crowd = members.size() > kMostBroadcasting && post->link.kind == "bridge";
      try_ask(*post, subjects, is_crowd, {addresses, owners, pacer});
      if (post->link.kind == "bridge") forget_own(post->link, addresses, owners);
    }
    judge(network, addresses, owners, out);
  }
  return out;
}

}  // namespace tool::probe
