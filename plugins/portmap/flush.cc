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

namespace nf = netlink::nf;

// A TCP connection ends, and with it its entry.
bool is_flushed(const Claim& claim) { return claim.key.protocol != Protocol::kTcp; }

template <class Fn>
void or_note(Fn&& fn) noexcept {
  try {
    std::forward<Fn>(fn)();
  } catch (const std::exception& e) {
    cni::note(netlink::cat("delete stale conntrack entries: ", e.what()));
  }
}

/// Whether addresses are local to the node; each is queried once.
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

bool is_redirected(const nf::Flow& flow, const Claim& claim) {
  return flow.reply.source == claim.target && flow.reply.source_port == claim.target_port;
}

// A flow to the port of a local address that does not lead to the claim's target. A flow to the
// same port of another host is none.
bool went_elsewhere(const nf::Flow& flow, const Claim& claim, LocalAddresses& local) {
  if (is_redirected(flow, claim)) return false;
  return claim.key.address ? flow.original.destination == *claim.key.address
                           : local.has(flow.original.destination);
}

// Deletes the flows to a claim's port of which is_stale() is true. The kernel lists all connections
// for every dump: few ports are filtered in the kernel one by one, many in one dump here.
void flush(nf::NfSocket& socket, const std::vector<Claim>& claims,
           const std::function<bool(const nf::Flow&, const Claim&)>& is_stale) {
  constexpr std::size_t kFew = 4;
  std::map<std::pair<Family, Protocol>, std::multimap<std::uint16_t, Claim>> groups;
  for (const Claim& claim : claims) {
    if (!is_flushed(claim)) continue;
    groups[{claim.key.family, claim.key.protocol}].emplace(claim.key.port, claim);
  }
  for (const auto& [kind, by_port] : groups) {
    const nf::FlowFilter all{.family = kind.first,
                             .protocol = static_cast<std::uint8_t>(kind.second)};
    const auto ask = [&, &claims_by_port = by_port](const nf::FlowFilter& filter) {
      for (const nf::Flow& flow : nf::flows(socket, filter)) {
        const auto [first, last] = claims_by_port.equal_range(flow.original.destination_port);
        const bool stale = std::any_of(
            first, last, [&](const auto& entry) { return is_stale(flow, entry.second); });
        if (stale) nf::remove(socket, flow);
      }
    };
    if (by_port.size() > kFew) {
      ask(all);
      continue;
    }
    for (const auto& [port, claim] : by_port) {
      nf::FlowFilter one = all;
      one.original_port = port;
      ask(one);
    }
  }
}

}  // namespace

void flush_stale(nf::NfSocket& socket, netlink::RouteSocket& host,
                 const std::vector<Claim>& claims) noexcept {
  const cni::Phase phase("conntrack");
  or_note([&] {
    LocalAddresses local(host);
    flush(socket, claims, [&](const nf::Flow& flow, const Claim& claim) {
      return went_elsewhere(flow, claim, local);
    });
  });
}

void flush_redirected(nf::NfSocket& socket, const std::vector<Claim>& claims) noexcept {
  or_note([&] { flush(socket, claims, is_redirected); });
}

}  // namespace portmap
