#include "plugins/portmap/flush.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "netlink/nf/conntrack.h"

namespace portmap {

namespace {

using netlink::nf::Flow;
using netlink::nf::FlowFilter;
using netlink::nf::NfSocket;

// TCP ends what it began; its entries are of no harm.
bool is_remembered(const Claim& claim) { return claim.key.protocol != Protocol::kTcp; }

template <class Fn>
void or_note(Fn&& fn) noexcept {
  try {
    std::forward<Fn>(fn)();
  } catch (const std::exception& e) {
    cni::note(netlink::cat("forget old connections: ", e.what()));
  }
}

/// Which addresses are the node's; each is asked for once.
class LocalAddresses {
 public:
  explicit LocalAddresses(netlink::RouteSocket& host) : host_(host) {}
  bool has(const Ip& ip) {
    const auto [it, is_new] = known_.try_emplace(ip, false);
    if (is_new) {
      const auto path = host_.path_to(ip);
      it->second = path && path->local;
    }
    return it->second;
  }

 private:
  netlink::RouteSocket& host_;
  std::map<Ip, bool> known_;
};

bool is_redirected(const Flow& flow, const Claim& claim) {
  return flow.reply.source == claim.target && flow.reply.source_port == claim.target_port;
}

// A flow to the port that does not go to the claim's target. What leaves the node, or passes it, to
// the same port of others is none.
bool went_elsewhere(const Flow& flow, const Claim& claim, LocalAddresses& local) {
  if (is_redirected(flow, claim)) return false;
  return claim.key.address ? flow.original.destination == *claim.key.address
                           : local.has(flow.original.destination);
}

// Removes the flows to a claim's port of which is_stale() says so. The kernel walks all its
// connections for every question: a few ports are asked for one by one, so that it hands over
// little, many at once.
void forget(NfSocket& socket, const std::vector<Claim>& claims,
            const std::function<bool(const Flow&, const Claim&)>& is_stale) {
  constexpr std::size_t kFew = 4;
  std::map<std::pair<Family, Protocol>, std::multimap<std::uint16_t, Claim>> groups;
  for (const Claim& claim : claims) {
    if (!is_remembered(claim)) continue;
    groups[{claim.key.family, claim.key.protocol}].emplace(claim.key.port, claim);
  }
  for (const auto& [kind, by_port] : groups) {
    const FlowFilter all{.family = kind.first, .protocol = static_cast<std::uint8_t>(kind.second)};
    const auto ask = [&, &by_port = by_port](const FlowFilter& filter) {
      for (const Flow& flow : netlink::nf::flows(socket, filter)) {
        const auto [first, last] = by_port.equal_range(flow.original.destination_port);
        const bool stale = std::any_of(
            first, last, [&](const auto& entry) { return is_stale(flow, entry.second); });
        if (stale) netlink::nf::remove(socket, flow);
      }
    };
    if (by_port.size() > kFew) {
      ask(all);
      continue;
    }
    for (const auto& [port, claim] : by_port) {
      FlowFilter one = all;
      one.original_port = port;
      ask(one);
    }
  }
}

}  // namespace

void forget_before(NfSocket& socket, netlink::RouteSocket& host,
                   const std::vector<Claim>& claims) noexcept {
  const cni::Phase phase("conntrack");
  or_note([&] {
    LocalAddresses local(host);
    forget(socket, claims, [&](const Flow& flow, const Claim& claim) {
      return went_elsewhere(flow, claim, local);
    });
  });
}

void forget_redirected(NfSocket& socket, const std::vector<Claim>& claims) noexcept {
  or_note([&] { forget(socket, claims, is_redirected); });
}

}  // namespace portmap
