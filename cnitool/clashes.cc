#include "cnitool/clashes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cnitool/json_at.h"
#include "cnitool/known_plugins.h"
#include "libcni/common/error.h"
#include "netlink/route/link_data.h"
#include "plugins/names/links.h"

namespace tool {

namespace {

using cni::Fact;
using netlink::Ip;

// A gateway is no pod's: one at an end is not of the overlap.
std::optional<Overlap> overlap_of(const Given& one, const Given& other) {
  const cni::AddressRange &mine = one.range, &theirs = other.range;
  if (mine.start.family() != theirs.start.family() || !mine.overlaps(theirs)) return std::nullopt;
  Ip first = std::max(mine.start, theirs.start), last = std::min(mine.end, theirs.end);
  const auto is_gateway = [&](const Ip& ip) { return ip == mine.gateway || ip == theirs.gateway; };
  while (is_gateway(first)) {
    if (first == last) return std::nullopt;
    first = *first.next();
  }
  while (is_gateway(last)) last = *last.prev();
  return Overlap{&one, &other, first, last};
}

bool have_one_subnet(const Given& one, const Given& other) {
  const netlink::Cidr mine = one.range.subnet.network(), theirs = other.range.subnet.network();
  return mine.contains(theirs.ip) || theirs.contains(mine.ip);
}

// One address, to which the node needs no route of a subnet. A bridge has its gateway's.
bool is_alone(const NetworkAddresses& network, const Given& one) {
  const bool is_subnet = one.range.subnet.prefix != one.range.subnet.ip.bits();
  return one.range.start == one.range.end &&
         !(is_subnet && network.wire->kind != Wire::Kind::kNode);
}

// Of networks to whose pods the node routes. Without a segment it has a route for each pod alone.
std::optional<Overlap> one_subnet_of(const NetworkAddresses& one, const NetworkAddresses& other) {
  const auto has_no_segment = [](const NetworkAddresses& network) {
    return network.wire->kind == Wire::Kind::kNode;
  };
  if (has_no_segment(one) && has_no_segment(other)) return std::nullopt;
  for (const Given& mine : one.given.all) {
    for (const Given& theirs : other.given.all) {
      if (is_alone(one, mine) || is_alone(other, theirs) || !have_one_subnet(mine, theirs))
        continue;
      return Overlap{&mine, &theirs, mine.range.start, mine.range.end};
    }
  }
  return std::nullopt;
}

}  // namespace

std::string Overlap::str() const {
  return first == last ? first.str() : cni::cat(first.str(), "-", last.str());
}

std::vector<Overlap> overlaps_of(const GivenAddresses& one, const GivenAddresses& other) {
  std::vector<Overlap> out;
  for (const Given& mine : one.all) {
    for (const Given& theirs : other.all) {
      if (const auto overlap = overlap_of(mine, theirs)) out.push_back(*overlap);
    }
  }
  return out;
}

std::optional<Wire> wire_of(const nlohmann::json& conf, cni::Facts facts) {
  if (!conf.is_object() || is_true(conf, "linkInContainer")) return std::nullopt;
  const auto number = [&conf](const char* key) {
    return static_cast<std::uint16_t>(number_at(conf, key));
  };
  if (facts.has(Fact::kBridge)) {
    return Wire{.kind = Wire::Kind::kBridge,
                .link = text_at(conf, "bridge", names::kDefaultBridge),
                .vlan = number("vlan"),
                .protocol = netlink::Vlan::k8021q,
                .is_routed = is_true(conf, "isGateway") || is_true(conf, "isDefaultGateway")};
  }
  if (facts.has(Fact::kRouted)) return Wire{.is_routed = true};
  if (!facts.has(Fact::kMaster)) return std::nullopt;
  Wire out{.kind = Wire::Kind::kMaster, .link = text_at(conf, "master")};
  const char* const kind = facts_of(text_at(conf, "type")).link_kind();
  if (kind != nullptr && std::string_view(kind) == "vlan") {
    const bool is_outer = text_at(conf, "protocol") == "802.1ad";
    out.vlan = number("vlanId");
    out.protocol = is_outer ? netlink::Vlan::k8021ad : netlink::Vlan::k8021q;
  }
  return out;
}

bool have_one_name(const Wire& one, const Wire& other) {
  if (one.kind != other.kind || one.kind == Wire::Kind::kNode) return false;
  if (one.link != other.link || one.vlan != other.vlan) return false;
  return one.vlan == 0 || one.protocol == other.protocol;
}

std::vector<Clash> clashes(const std::vector<NetworkAddresses>& all, const Joined& joined) {
  std::vector<Clash> out;
  for (auto one = all.begin(); one != all.end(); ++one) {
    for (auto other = all.begin(); other != one; ++other) {
      if (!one->wire || !other->wire || one->network == other->network) continue;
      const bool have_one_store =
          !one->given.store.empty() && one->given.store == other->given.store;
      const bool is_one_segment = joined(*one->wire, *other->wire);
      const bool are_routed = one->wire->is_routed && other->wire->is_routed;
      if (have_one_store || (!is_one_segment && !are_routed)) continue;
      Clash found{&*one, &*other, overlaps_of(one->given, other->given)};
      if (!is_one_segment && found.overlaps.empty()) {
        found.subnets = one_subnet_of(*one, *other);
      }
      if (!found.overlaps.empty() || found.subnets) out.push_back(std::move(found));
    }
  }
  return out;
}

}  // namespace tool
