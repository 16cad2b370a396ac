#include "plugins/portmap/flush.h"

#include <map>

#include "libcni/error.h"
#include "libcni/undo.h"
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

// A flow to the port that does not go to the claim's target. What leaves the node, or passes it, to
// the same port of others is none.
bool went_elsewhere(const Flow& flow, const Claim& claim, LocalAddresses& local) {
  if (flow.original.destination_port != claim.key.port) return false;
  if (flow.reply.source == claim.target && flow.reply.source_port == claim.target_port) {
    return false;
  }
  return claim.key.address ? flow.original.destination == *claim.key.address
                           : local.has(flow.original.destination);
}

}  // namespace

void forget_before(NfSocket& socket, netlink::RouteSocket& host,
                   const std::vector<Claim>& claims) noexcept {
  or_note([&] {
    LocalAddresses local(host);
    for (const Claim& claim : claims) {
      if (!is_remembered(claim)) continue;
      FlowFilter filter{.family = claim.key.family,
                        .protocol = static_cast<std::uint8_t>(claim.key.protocol),
                        .original_port = claim.key.port,
                        .original_destination = claim.key.address,
                        .reply_source = {}};
      for (const Flow& flow : netlink::nf::flows(socket, filter)) {
        if (went_elsewhere(flow, claim, local)) netlink::nf::remove(socket, flow);
      }
    }
  });
}

void forget_redirected(NfSocket& socket, const std::vector<Claim>& claims) noexcept {
  or_note([&] {
    for (const Claim& claim : claims) {
      if (!is_remembered(claim)) continue;
      FlowFilter filter{.family = claim.key.family,
                        .protocol = static_cast<std::uint8_t>(claim.key.protocol),
                        .original_port = claim.key.port,
                        .original_destination = {},
                        .reply_source = claim.target};
      for (const Flow& flow : netlink::nf::flows(socket, filter)) {
        if (flow.reply.source_port == claim.target_port) netlink::nf::remove(socket, flow);
      }
    }
  });
}

}  // namespace portmap
