#include "plugins/common/link/duplicates.h"

#include <algorithm>
#include <chrono>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"

namespace plugins {

namespace {

using cni::cat;
using netlink::Ip;
using netlink::NeighbourClaim;
using netlink::SegmentSocket;
using Clock = SegmentSocket::Clock;

// RFC 5227 takes 4 to 9 seconds, for a node that starts with many others; a runtime waits for ADD.
constexpr int kProbes = 3;
constexpr std::chrono::milliseconds kBetweenProbes{300};
// The socket gets a frame and the kernel's code for IPv6 the same one, in any order.
constexpr std::chrono::milliseconds kOrder{200};

std::vector<Ip> v4_of(const std::vector<cni::Address>& addresses) {
  std::vector<Ip> out;
  for (const cni::Address& address : addresses) {
    if (address.cidr.ip.is_v4()) out.push_back(address.cidr.ip);
  }
  return out;
}

std::optional<NeighbourClaim> probe(SegmentSocket& socket, const netlink::Mac& own,
                                    const std::vector<Ip>& addresses) {
  const auto concerns = [&](const NeighbourClaim& claim) {
    return claim.owner != own && std::ranges::find(addresses, claim.address) != addresses.end();
  };
  for (int i = 0; i < kProbes; ++i) {
    for (const Ip& address : addresses) socket.send(netlink::arp_probe(own, address));
    if (auto claim = socket.claim_until(Clock::now() + kBetweenProbes, concerns)) return claim;
  }
  return std::nullopt;
}

}  // namespace

void refuse_duplicates(const PodInterface& interface, const std::vector<cni::Address>& addresses) {
  const auto wanted = v4_of(addresses);
  if (wanted.empty()) return;
  const cni::Phase phase("probe");
  interface.sides.pod.send(netlink::set_link(interface.link, {.up = true}));
  SegmentSocket socket(interface.sides.pod_ns, interface.link.index, SegmentSocket::Protocol::kArp);
  const auto claim = probe(socket, interface.link.mac, wanted);
  if (claim) {
    throw cni::Error(cni::Code::kInternal,
                     cat("address ", claim->address.str(), " for '", interface.link.name,
                         "' is in use: ", claim->owner.str(), " answers to it"),
                     "another node on the link has the address: give one of them another");
  }
  // It comes up with its addresses, which the kernel announces then (RFC 5227, section 2.3).
  interface.sides.pod.send(netlink::set_link(interface.link, {.up = false}));
}

Neighbours::Neighbours(const PodInterface& interface)
    : own_(interface.link.mac),
      socket_(interface.sides.pod_ns, interface.link.index, SegmentSocket::Protocol::kIpv6) {}

std::optional<netlink::Mac> Neighbours::owner_of(const netlink::Ip& address) {
  const auto claim = socket_.claim_until(Clock::now() + kOrder, [&](const NeighbourClaim& one) {
    return one.owner != own_ && one.address == address;
  });
  return claim ? std::optional(claim->owner) : std::nullopt;
}

}  // namespace plugins
