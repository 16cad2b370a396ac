#include <algorithm>
#include <cerrno>
#include <system_error>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"
#include "cnitool/probe/causes.h"
#include "cnitool/probe/route_words.h"
#include "libcni/common/error.h"
#include "netlink/route/link_settings.h"

// Routes and rules of the routing policy, of the node and of pods.
namespace tool::probe {

namespace {

using cni::cat;
using netlink::Decision;
using netlink::Ip;
using netlink::Link;
using netlink::LinkRoute;
using netlink::PolicyStep;
using netlink::RoutedPacket;

constexpr std::uint32_t kMainTable = 254, kLocalTable = 255, kDefaultTable = 253;
constexpr std::uint8_t kUnicastType = 1, kLocalType = 2;  // RTN_*

/// A packet in one namespace, and the links that lead to its target from there.
struct Way {
  const Subject* where = nullptr;
  RoutedPacket packet;
  netlink::Cidr subnet;                     ///< of the pods whose packets these are
  const netlink::Link* expected = nullptr;  ///< null: unknown
  bool is_beyond = false;                   ///< the target is no pod
};

bool is_common(std::uint32_t table) {
  return table == kMainTable || table == kLocalTable || table == kDefaultTable;
}

// Whether addresses of the node itself come to it only behind the rule, as where another program
// has moved "lookup local".
bool is_before_local(const PolicyStep& rule, const std::vector<PolicyStep>& policy) {
  return std::ranges::none_of(policy, [&](const PolicyStep& one) {
    const bool is_local = one.action == PolicyStep::Action::kTable && one.table == kLocalTable;
    return is_local && one.priority + 1 < rule.priority;
  });
}

// Before the rule: what is from the pods' subnet or to it is routed by the main table.
std::string before(const PolicyStep& rule, const Way& way, Scene& scene) {
  const Ip& target = way.packet.path.destination;
  const std::string ip = command(target, "rule");
  if (rule.priority == 0) {
    PolicyStep typed = rule;
    for (std::string* const link : {&typed.in, &typed.out}) {
      if (!link->empty()) *link = doctor::quoted(*link);
    }
    return cat(ip, "del priority 0 ", typed.str());
  }
  std::string out;
  for (const char* const side : {"from ", "to "}) {
    const std::string add = cat(ip, "add ", side, way.subnet.str(), " lookup ");
    if (rule.priority > 1 && is_before_local(rule, scene.policy(way.where, target.family()))) {
      out += cat(out.empty() ? "" : "; ", add, "local priority ", rule.priority - 2);
    }
    out += cat(out.empty() ? "" : "; ", add, "main priority ", rule.priority - 1);
  }
  return out;
}

std::string owner(const Subject* where) { return where == nullptr ? "the node's " : "its "; }

// A rule "goto" that leads it past others is to blame for what comes behind it.
Cause by_jump(const PolicyStep& jump, const Decision& decision, const Way& way, Scene& scene) {
  const std::string target =
      decision.rule ? cat("to the ", text_of(*decision.rule)) : "past the rules that have a route";
  return {cat(prefix_of(way.where), owner(way.where), text_of(jump), " leads packets ", target),
          kSomebodys, command_in(way.where, before(jump, way, scene))};
}

Cause by_rule(const PolicyStep& rule, const std::string& does, const Way& way, Scene& scene) {
  const bool is_drop = rule.action != PolicyStep::Action::kTable;
  return {cat(prefix_of(way.where), owner(way.where), text_of(rule), does),
          is_drop ? kSomebodys : "of a VPN or a person",
          command_in(way.where, before(rule, way, scene))};
}

bool leads_elsewhere(const LinkRoute& route, const Way& way) {
  if (way.expected == nullptr) return false;
  if (route.multipath.empty()) return route.link != way.expected->index;
  return std::ranges::any_of(route.multipath, [&](const netlink::NextHop& hop) {
    return hop.link != way.expected->index;
  });
}

// A gateway on the right link that is no way to a pod, whose address is on the link itself.
bool takes_detour(const LinkRoute& route, const Way& way) {
  return way.where == nullptr && way.expected != nullptr && !way.is_beyond &&
         route.gateway.has_value();
}

// Whether its result has a default route, and nothing decided that there is one.
bool lacks_default(const Subject& pod, netlink::Family family, const Decision& decision) {
  return !decision.route && std::ranges::any_of(pod.result.routes, [&](const cni::Route& one) {
    return one.dst.is_default() && one.dst.ip.family() == family;
  });
}

Cause without_route(const Way& way, const Decision& decision) {
  const Ip& to = way.packet.path.destination;
  if (decision.thrown) {
    const std::string text = cat("throw ", decision.thrown->dst.str());
    return {cat(prefix_of(way.where), owner(way.where), "route '", text,
                "' takes packets from their table, and no other one has a route for them"),
            kSomebodys,
            command_in(way.where, cat(command(to, "route"), "del ", text,
                                      is_common(decision.thrown->table)
                                          ? std::string()
                                          : cat(" table ", decision.thrown->table)))};
  }
  if (way.where != nullptr) {
    const std::string what = lacks_default(*way.where, to.family(), decision)
                                 ? "there is no default route, which its result has"
                                 : cat("there is no route for packets to ", to.str());
    return {cat(prefix_of(way.where), what), "", restart_of(*way.where)};
  }
  return {cat("the node has no route for packets to ", to.str()), "",
          way.expected != nullptr ? std::string("cnitool repair")
                                  : cat(command(to, "route"), "get ", to.str())};
}

Cause by_route(const LinkRoute& route, const Decision& decision, const Way& way, Scene& scene) {
  const Ip& to = way.packet.path.destination;
  const std::string text = text_of(route, scene, way.where);
  const bool refuses = !netlink::refusal_of(route).empty();
  const std::string does =
      refuses
          ? " drops packets"
          : cat(" leads packets ", route.dst.is_default() ? cat("to ", to.str(), " ") : "", "away",
                way.expected == nullptr ? "" : cat(" from '", printable(way.expected->name), "'"));
  if (!is_common(route.table)) {
    return by_rule(
        *decision.rule,
        cat(" leads packets to '", text, "', which", refuses ? " drops them" : " is another way"),
        way, scene);
  }
  const std::string table = route.table == kLocalTable ? " table local" : "";
  if (way.where != nullptr && route.type == kLocalType) {
    return {cat(prefix_of(way.where), "packets to ", to.str(), " stay there, because it has that ",
                "address, too"),
            "of the pod itself, or of a person", restart_of(*way.where)};
  }
  return {
      cat(prefix_of(way.where), owner(way.where), "route '", text, "'", does), whose_route(route),
      command_in(way.where,
                 cat(command(to, "route"), "del ", name_of_route(route, scene, way.where), table))};
}

// Tables that the policy has to look into, for what the kernel or plugins have put there.
std::optional<Cause> lacks_table(const Way& way, Scene& scene) {
  constexpr struct {
    std::uint32_t table, priority;
    const char* name;
  } kTables[] = {{kLocalTable, 0, "local"}, {kMainTable, 32766, "main"}};
  const Ip& to = way.packet.path.destination;
  const auto& policy = scene.policy(way.where, to.family());
  for (const auto& [table, priority, name] : kTables) {
    const bool has = std::ranges::any_of(policy, [&, number = table](const PolicyStep& one) {
      return one.action == PolicyStep::Action::kTable && one.table == number;
    });
    if (has) continue;
    return Cause{
        cat(prefix_of(way.where), "no rule of the routing policy says 'lookup ", name, "'"), "",
        command_in(way.where,
                   cat(command(to, "rule"), "add lookup ", name, " priority ", priority))};
  }
  return std::nullopt;
}

Decision decision_of(const Way& way, Scene& scene) {
  const auto family = way.packet.path.destination.family();
  return netlink::decide(scene.policy(way.where, family), scene.routes(way.where, family),
                         way.packet);
}

std::optional<Cause> decided_wrong(const Decision& decision, const Way& way, Scene& scene) {
  if (decision.jump && (!decision.route || !is_common(decision.route->table)))
    return by_jump(*decision.jump, decision, way, scene);
  if (decision.rule && !decision.route)
    return by_rule(*decision.rule, " drops packets", way, scene);
  if (decision.suppressor && !decision.route && !decision.thrown)
    return by_rule(*decision.suppressor, " takes no route that is so short", way, scene);
  return std::nullopt;
}

// The rule or route that decides otherwise than it should.
std::optional<Cause> misled(const Way& way, Scene& scene) {
  const Decision decision = decision_of(way, scene);
  const bool is_own = decision.route && decision.route->table == kLocalTable;
  if (auto cause = is_own ? std::nullopt : lacks_table(way, scene)) return cause;
  if (!decision.route) {
    auto cause = decided_wrong(decision, way, scene);
    return cause ? cause : without_route(way, decision);
  }
  const LinkRoute& route = *decision.route;
  if (!netlink::refusal_of(route).empty()) {
    auto cause = decided_wrong(decision, way, scene);
    return cause ? cause : by_route(route, decision, way, scene);
  }
  // What is expected elsewhere is not the place's own, and pods are no groups.
  const bool is_for_one = route.type == kUnicastType;
  const bool is_kept =
      !is_for_one && way.expected != nullptr && (route.type == kLocalType || !way.is_beyond);
  if (!is_kept && (!is_for_one || (!leads_elsewhere(route, way) && !takes_detour(route, way)))) {
    return std::nullopt;
  }
  if (auto cause = decided_wrong(decision, way, scene)) return cause;
  // What is less specific than the pods' own route decides only where that is lost.
  const bool is_coarse =
      route.dst.prefix < way.subnet.prefix && way.subnet.contains(way.packet.path.destination);
  if (is_coarse && is_common(route.table)) return without_route(way, Decision());
  return by_route(route, decision, way, scene);
}

// What is for the node itself, and does not arrive at the table of its own addresses.
std::optional<Cause> not_taken(const Way& way, Scene& scene) {
  const Decision decision = decision_of(way, scene);
  if (decision.route && decision.route->type == kLocalType) return std::nullopt;
  if (auto cause = lacks_table(way, scene)) return cause;
  if (auto cause = decided_wrong(decision, way, scene)) return cause;
  const bool is_foreign = decision.route && !is_common(decision.route->table);
  return is_foreign ? std::optional(by_route(*decision.route, decision, way, scene)) : std::nullopt;
}

// Whether somebody is there to take what leaves by it. Tunnels ask for no MAC address.
bool has_taker(const LinkRoute& hop, const Ip& target, Scene& scene) {
  const auto link = scene.at(nullptr).find(hop.link);
  if (!link || !link->up || link->kind == "dummy") return false;
  return (netlink::settings_of(scene.at(nullptr), *link).flags & kNoArp) != 0 ||
         scene.resolved(nullptr, link->index, hop.gateway.value_or(target));
}

// Another way out of the node, whose routers may answer nobody: as for pods with an uplink of their
// own.
bool is_way_out(const Way& way, const Look& look) {
  const auto& drops = look.one.trail.drops;
  if (!may_be_silence(look) ||
      std::ranges::find(drops, Drop::Of::kRequest, &Drop::of) != drops.end())
    return false;
  const Decision decision = decision_of(way, look.scene);
  if (!decision.route || !netlink::refusal_of(*decision.route).empty()) return false;
  return std::ranges::all_of(netlink::each_hop(*decision.route), [&](const LinkRoute& hop) {
    return has_taker(hop, way.packet.path.destination, look.scene);
  });
}

// As the kernel sees it at this end. A hostPort has been replaced there.
RoutedPacket packet_of(const Look& look, bool is_translated) {
  const Question& question = look.one.question;
  const bool is_other = is_translated && question.destination_port != 0;
  const std::uint16_t port = is_other ? question.destination_port : question.packet.port;
  RoutedPacket out{{.destination = look.leg.target}, "", question.packet.protocol()};
  (look.leg.is_answer ? out.source_port : out.port) = port;
  return out;
}

netlink::Cidr subnet_with(const Look& look, const Ip& ip) {
  const Subject* out = look.leg.from != nullptr ? look.leg.from : look.leg.to;
  for (const Subject* const pod : {look.leg.from, look.leg.to}) {
    if (pod != nullptr && subnet_of(*pod, ip.family()).contains(ip)) out = pod;
  }
  return subnet_of(out == nullptr ? look.one.subject : *out, ip.family());
}

// The kernel makes these routes with the addresses.
std::optional<Cause> not_local(const Look& look) {
  const Ip& ip = look.leg.target;
  const auto& routes = look.scene.routes(nullptr, ip.family());
  const bool has = std::ranges::any_of(
      routes, [&](const LinkRoute& one) { return one.type == kLocalType && one.dst.contains(ip); });
  if (has) return std::nullopt;
  netlink::RouteSocket& node = look.scene.at(nullptr);
  for (const netlink::LinkAddress& one : node.addresses()) {
    const auto link = one.cidr.ip == ip ? node.find(one.link) : std::nullopt;
    if (!link) continue;
    const std::string route = cat("local ", ip.str(), " dev ", doctor::quoted(link->name));
    return Cause{cat("the node has the address ", ip.str(), " on '", printable(link->name),
                     "', and no route of table local says that it is its own"),
                 kSomebodys, cat(command(ip, "route"), "add ", route, " table local proto kernel")};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Cause> no_way_from(const Look& look) {
  const Leg& leg = look.leg;
  if (leg.is_from_beyond) return std::nullopt;
  Way way{.where = leg.from,
          .packet = packet_of(look, leg.from == nullptr || leg.is_answer),
          .subnet = subnet_with(look, leg.target)};
  if (!leg.source.is_unspecified()) way.packet.path.source = leg.source;
  if (leg.from != nullptr) {
    const Wire& wire = look.scene.wire_of(*leg.from);
    if (wire.inner) way.expected = &*wire.inner;
    way.subnet = subnet_of(*leg.from, leg.target.family());
    if (!leg.is_answer) way.packet.path.destination = look.one.question.packet.target;
  } else if (leg.to != nullptr) {
    way.expected = look.scene.wire_of(*leg.to).way();
  }
  return misled(way, look.scene);
}

std::optional<Cause> no_way_on_node(const Look& look) {
  const Leg& leg = look.leg;
  Way way{.packet = packet_of(look, true), .subnet = subnet_with(look, leg.target)};
  if (!leg.source.is_unspecified()) way.packet.path.source = leg.source;
  way.packet.path.mark = leg.is_answer ? look.one.trail.answer_mark : look.one.trail.mark;
  const Link* const from = leg.from == nullptr ? nullptr : look.scene.wire_of(*leg.from).way();
  if (from != nullptr) way.packet.in = from->name;
  const auto& uplink = look.scene.facts().uplink(leg.target.family());
  if (leg.is_from_beyond && uplink) way.packet.in = uplink->link;
  if (leg.to == nullptr && look.scene.facts().has(leg.target)) {
    if (auto cause = not_local(look)) return cause;
    if (from != nullptr) way.subnet = subnet_with(look, leg.source);
    return not_taken(way, look.scene);
  }
  if (leg.to != nullptr) way.expected = look.scene.wire_of(*leg.to).way();
  const auto out =
      leg.is_beyond && uplink ? look.scene.at(nullptr).find(uplink->link) : std::nullopt;
  way.is_beyond = leg.is_beyond;
  if (out && look.one.question.packet.target == uplink->gateway) way.expected = &*out;
  if ((from == nullptr && way.expected == nullptr) || is_way_out(way, look)) return std::nullopt;
  return misled(way, look.scene);
}

// The node answers ARP for its own address if packets from the pod to it would stay there.
std::optional<Cause> gateway_is_not_taken(const Look& look) {
  const Leg& leg = look.leg;
  if (leg.from == nullptr || !leg.source.is_v4()) return std::nullopt;
  const Link* const from = look.scene.wire_of(*leg.from).way();
  for (const cni::Address& one : leg.from->result.ips) {
    if (from == nullptr || !one.gateway || one.cidr.ip != leg.source) continue;
    if (!look.scene.facts().has(*one.gateway)) continue;
    const Way way{.packet = {{.destination = *one.gateway, .source = leg.source}, from->name},
                  .subnet = subnet_with(look, leg.source)};
    return not_taken(way, look.scene);
  }
  return std::nullopt;
}

// The kernel checks by it whom packets come from, and ARP, too.
std::optional<Cause> no_way_back_on_node(const Look& look) {
  const Leg& leg = look.leg;
  if (leg.from == nullptr || look.scene.facts().has(leg.source)) return std::nullopt;
  Way way{.packet = {{.destination = leg.source}, "", look.one.question.packet.protocol()},
          .subnet = subnet_with(look, leg.source),
          .expected = look.scene.wire_of(*leg.from).way()};
  return way.expected == nullptr ? std::nullopt : misled(way, look.scene);
}

std::optional<Cause> no_way_there(const Look& look) {
  const Leg& leg = look.leg;
  if (leg.to == nullptr) return std::nullopt;
  Way way{
      .where = leg.to, .packet = packet_of(look, true), .subnet = subnet_with(look, leg.target)};
  way.packet.in = leg.to->key.ifname;
  if (!leg.source.is_unspecified()) way.packet.path.source = leg.source;
  return not_taken(way, look.scene);
}

}  // namespace tool::probe
