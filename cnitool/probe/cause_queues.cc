#include <algorithm>
#include <string_view>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"
#include "cnitool/probe/causes.h"
#include "libcni/common/error.h"
#include "netlink/bpf/attached.h"
#include "netlink/route/link_settings.h"
#include "netlink/tc/list.h"

// What takes packets between a link and the rules behind it: filters and qdiscs of tc(8), and XDP.
namespace tool::probe {

namespace {

using cni::cat;
using doctor::quoted;
using netlink::Link;
namespace tc = netlink::tc;

enum class Direction : bool { kIn, kOut };

std::string name_of_link(const Subject* where, const Link& link) {
  return cat(prefix_of(where), "'", printable(link.name), "'");
}

std::optional<Cause> by_filter(const Look& look, const Subject* where, const Link& link,
                               Direction way) {
  const bool is_in = way == Direction::kIn;
  const auto filters = tc::filters(look.scene.at(where), link, is_in ? tc::kIngress : tc::kEgress);
  if (filters.empty()) return std::nullopt;
  const tc::FilterState& one = filters.front();
  const char* const side = is_in ? "ingress" : "egress";
  std::string what = cat(name_of_link(where, link), ": packets are lost where ", side, " has a ",
                         one.kind, " filter of priority ", one.priority);
  if (!one.program.empty()) what += cat(" (program ", printable(one.program), ")");
  return Cause{what, kSomebodys,
               command_in(where, cat("tc -s filter show dev ", quoted(link.name), " ", side))};
}

// Those that keep or drop packets by design; the usual ones lose none of so few.
bool may_lose(const tc::QdiscState& one) {
  constexpr std::string_view kUsual[] = {"noqueue", "pfifo_fast", "fq_codel", "fq",    "mq",
                                         "clsact",  "ingress",    "pfifo",    "bfifo", "sfq"};
  for (const std::string_view kind : kUsual) {
    if (one.kind == kind) return false;
  }
  return true;
}

std::optional<Cause> by_qdisc(const Look& look, const Subject* where, const Link& link) {
  const auto root = tc::qdisc(look.scene.at(where), link, tc::kRoot);
  if (!root || !may_lose(*root)) return std::nullopt;
  return Cause{cat(name_of_link(where, link), ": packets are lost in its qdisc ", root->kind, " ",
                   tc::str(root->handle)),
               kSomebodys, command_in(where, cat("tc -s qdisc show dev ", quoted(link.name)))};
}

std::optional<Cause> by_xdp(const Look& look, const Subject* where, const Link& link) {
  const std::string program = xdp_program_of(look.scene.at(where), link);
  if (program.empty()) return std::nullopt;
  return Cause{cat(name_of_link(where, link), ": packets are lost where the XDP program ", program,
                   " is attached"),
               kSomebodys, command_in(where, cat("ip -d link show dev ", quoted(link.name)))};
}

std::optional<Cause> lost_at(const Look& look, const Subject* where, const Link& link,
                             Direction way) {
  if (way == Direction::kIn) {
    if (auto cause = by_xdp(look, where, link)) return cause;
    return by_filter(look, where, link, way);
  }
  if (auto cause = by_filter(look, where, link, way)) return cause;
  return by_qdisc(look, where, link);
}

// On the way from the pod.
std::optional<Cause> lost_behind(const Look& look, const Subject* pod) {
  if (pod == nullptr) return std::nullopt;
  const Wire& wire = look.scene.wire_of(*pod);
  if (wire.inner) {
    if (auto cause = lost_at(look, pod, *wire.inner, Direction::kOut)) return cause;
  }
  return wire.outer ? lost_at(look, nullptr, *wire.outer, Direction::kIn) : std::nullopt;
}

}  // namespace

bool is_handed_on(const Look& look) {
  const Case& one = look.one;
  if (look.leg.is_answer || look.leg.last < Spot::kOnLink) return false;
  const auto& sights = one.trail.request_sights;
  const bool is_routed = std::ranges::any_of(sights, [&](const Sight& each) {
    return each.place == one.subject_place && each.hook == Hook::kForward;
  });
  const Wire& wire = look.scene.wire_of(one.subject);
  if (is_routed || !wire.inner) return is_routed;
  netlink::RouteSocket& pod = look.scene.at(&one.subject);
  return !pod.links_of_kind("tun").empty() &&
         (wire.inner->master != 0 || !tc::filters(pod, *wire.inner, tc::kIngress).empty());
}

std::string xdp_program_of(netlink::RouteSocket& socket, const Link& link) {
  const auto xdp = netlink::settings_of(socket, link).xdp;
  for (const std::uint32_t id : {xdp.driver, xdp.generic, xdp.hardware}) {
    if (id == 0) continue;
    const std::string name = netlink::bpf::program_name(id);
    return name.empty() ? cat("id ", id) : cat("'", printable(name), "' (id ", id, ")");
  }
  return {};
}

std::optional<Cause> queued_from(const Look& look) { return lost_behind(look, look.leg.from); }

// Its packet waits for the MAC address that the receiver answers with.
std::optional<Cause> queued_back(const Look& look) { return lost_behind(look, look.leg.to); }

std::optional<Cause> queued_to(const Look& look) {
  const Subject* const pod = look.leg.to;
  if (pod == nullptr) return std::nullopt;
  const Wire& wire = look.scene.wire_of(*pod);
  for (const auto* const link : {&wire.bridge, &wire.outer}) {
    if (!*link) continue;
    if (auto cause = lost_at(look, nullptr, **link, Direction::kOut)) return cause;
  }
  return wire.inner ? lost_at(look, pod, *wire.inner, Direction::kIn) : std::nullopt;
}

std::optional<Cause> queued_at_uplink(const Look& look) {
  const Leg& leg = look.leg;
  const auto& uplink = look.scene.facts().uplink(leg.target.family());
  const auto link = uplink ? look.scene.at(nullptr).find(uplink->link) : std::nullopt;
  if (!link || (!leg.is_beyond && !leg.is_from_beyond)) return std::nullopt;
  // Of a packet that has left, whether it comes back is seen behind ingress.
  if (auto cause = lost_at(look, nullptr, *link, Direction::kOut)) return cause;
  return lost_at(look, nullptr, *link, Direction::kIn);
}

}  // namespace tool::probe
