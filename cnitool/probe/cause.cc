#include "cnitool/probe/cause.h"

#include <algorithm>
#include <system_error>

#include "cnitool/output.h"
#include "libcni/plugin/node_tool.h"
#include "netlink/nf/match.h"
#include "netlink/route/neighbour.h"
#include "netlink/sysctl.h"
#include "plugins/names/chains.h"
#include "plugins/names/tables.h"

namespace tool::probe {

namespace {

using doctor::quoted;
using netlink::Family;
using netlink::nf::ChainId;
using netlink::nf::TableFamily;
using netlink::nf::TraceStep;

constexpr std::uint32_t kMainTable = 254, kLocalTable = 255, kDefaultTable = 253;

/// Who makes tables and chains of these names.
constexpr struct {
  const char *table, *chain, *whose;
} kOwners[] = {{"firewalld", "", "firewalld's"},
               {"", "KUBE-", "kube-proxy's"},
               {"kube-proxy", "", "kube-proxy's"},
               {"", "cali-", "Calico's"},
               {"", "DOCKER", "Docker's"},
               {"docker-bridges", "", "Docker's"},
               {"", "CILIUM", "Cilium's"},
               {"", "ufw", "ufw's"},
               {"", "FLANNEL", "flannel's"},
               {names::kTablePrefix, "", "of this suite"},
               {"", names::kChainPrefix, "of a CNI plugin"},
               {"cni_", "", "of a CNI plugin"},
               {"netavark", "", "podman's"},
               {"", "LIBVIRT", "libvirt's"},
               {"libvirt_network", "", "libvirt's"}};

std::string whose(const ChainId& id) {
  for (const auto& one : kOwners) {
    if (id.table.starts_with(one.table) && id.chain.starts_with(one.chain)) return one.whose;
  }
  return "of another program or a person";
}

bool is_of_iptables(const ChainId& id) {
  constexpr std::string_view kTables[] = {"filter", "nat", "mangle", "raw", "security"};
  return (id.family == TableFamily::kIp || id.family == TableFamily::kIp6) &&
         std::ranges::find(kTables, id.table) != std::end(kTables);
}

// The line that nft has for a rule; its handle where nft is not installed, or the rule is gone.
std::string text_of_rule(const ChainId& id, std::uint64_t handle) {
  const std::string otherwise = cat("handle ", handle);
  const auto nft = cni::find_node_tool("nft");
  if (!nft) return otherwise;
  const auto outcome = cni::run_node_tool(
      *nft, {"-a", "list", "chain", std::string(name_of(id.family)), id.table, id.chain}, "");
  const std::string end = cat("# handle ", handle);
  std::string_view rest = outcome.out;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const auto begin = line.find_first_not_of("\t ");
    if (begin == std::string_view::npos || !line.ends_with(end)) continue;
    return printable(std::string(line.substr(begin)));
  }
  return otherwise;
}

netlink::Cidr subnet_of(const Subject& one, Family family) {
  for (const cni::Address& address : one.result.ips) {
    if (address.cidr.ip.family() == family) return address.cidr.network();
  }
  return {Ip::any(family), 0};
}

// Lets the pods' packets pass before the rule or policy that drops them; removes nothing.
std::string opening(const ChainId& id, const Case& one, const char* verdict) {
  const Family family = one.question.packet.target.family();
  const Subject& pod = one.sender != nullptr ? *one.sender : one.subject;
  const std::string subnet = subnet_of(pod, family).str();
  if (id.table == "firewalld") {
    return cat("firewall-cmd --permanent --zone=trusted --add-source=", subnet,
               " && firewall-cmd --reload");
  }
  if (is_of_iptables(id)) {
    const std::string command = cat(family == Family::kIpv4 ? "iptables" : "ip6tables", " -t ",
                                    id.table, " -I ", quoted(id.chain));
    const char* const target = std::string_view(verdict) == "accept" ? "ACCEPT" : "RETURN";
    return cat(command, " -s ", subnet, " -j ", target, "; ", command, " -d ", subnet, " -j ",
               target);
  }
  const std::string command =
      cat("nft insert rule ", name_of(id.family), " ", quoted(id.table), " ", quoted(id.chain));
  const char* const ip = family == Family::kIpv4 ? "ip" : "ip6";
  return cat(command, " ", ip, " saddr ", subnet, " ", verdict, "; ", command, " ", ip, " daddr ",
             subnet, " ", verdict);
}

std::string place_of(const ChainId& id) {
  return cat("chain '", printable(id.chain), "' of table ", name_of(id.family), " ",
             printable(id.table));
}

std::optional<Cause> drop_in(const std::vector<TraceStep>& steps, const Case& one) {
  for (const TraceStep& step : steps) {
    if (step.verdict.code != netlink::nf::drop().code) continue;
    const std::string by =
        step.kind == TraceStep::Kind::kPolicy ? "policy drop" : text_of_rule(step.chain, step.rule);
    return Cause{cat(place_of(step.chain), " drops packets: ", by), whose(step.chain),
                 opening(step.chain, one, "accept")};
  }
  return std::nullopt;
}

// The last rule that matched in a chain for address translation, which decides.
const TraceStep* translation_in(const std::vector<TraceStep>& steps, std::string_view hook) {
  const TraceStep* out = nullptr;
  for (const TraceStep& step : steps) {
    const bool is_output = hook == "source" ? step.out != 0 : step.out == 0;
    if (step.kind != TraceStep::Kind::kRule || step.verdict.code != netlink::nf::accept().code)
      continue;
    if (is_output) out = &step;
  }
  return out;
}

Ip destination_of(const Question& question) {
  return question.destination.value_or(question.packet.target);
}

// "by chain 'c' of table ip t: RULE", and what lets the pods' packets pass by it.
Cause by_translation(const std::string& what, std::string_view side, const Case& one) {
  const TraceStep* const step = translation_in(one.trail.request, side);
  if (step == nullptr) return {what, "", ""};
  return {cat(what, " by ", place_of(step->chain), ": ", text_of_rule(step->chain, step->rule)),
          whose(step->chain), opening(step->chain, one, "return")};
}

/// Where the node has led the request to, as its connection or the last rule that saw it says.
std::optional<Ip> arrival_of(const Case& one) {
  if (one.flow) return one.flow->reply.source;
  return one.question.destination && one.answer.is_delivered() ? one.trail.destination
                                                               : std::nullopt;
}

// A Service of Kubernetes has its endpoints elsewhere.
bool may_be_elsewhere(const Question& question) {
  return question.about == About::kNameServer || question.about == About::kAsked;
}

// Its config says that the node's address is the source of what leaves the node.
std::optional<Cause> not_masqueraded(const Case& one, const NodeFacts& facts) {
  const Packet& packet = one.question.packet;
  const auto& uplink = facts.uplink(packet.target.family());
  if (!one.subject.is_masqueraded || !one.flow || one.answer.is_delivered()) return std::nullopt;
  if (!uplink || uplink->gateway != packet.target || one.question.sender == std::nullopt ||
      one.flow->reply.destination != one.flow->original.source) {
    return std::nullopt;
  }
  return Cause{"the node does not masquerade what pods send to other hosts, as \"ipMasq\" says", "",
               "cnitool repair"};
}

std::optional<Cause> translated(const Case& one, const NodeFacts& facts) {
  const Ip wanted = destination_of(one.question);
  const auto arrival = may_be_elsewhere(one.question) ? std::nullopt : arrival_of(one);
  if (arrival && *arrival != wanted && one.question.destination && facts.has(*arrival)) {
    return Cause{"packets to hostPorts stay on the node, and are not led to the pods", "",
                 "cnitool repair"};
  }
  if (arrival && *arrival != wanted && !facts.has(*arrival)) {
    const std::string what = cat("packets to ", one.question.packet.target.str(), " are led to ",
                                 arrival->str(), " and not to ", wanted.str());
    return by_translation(what, "destination", one);
  }
  if (!one.flow) return std::nullopt;
  if (auto cause = not_masqueraded(one, facts)) return cause;
  const Ip& source = one.flow->reply.destination;
  if (one.flow->original.source == source || facts.has(source)) return std::nullopt;
  return by_translation(cat("the source of packets is replaced by ", source.str(),
                            ", which is no address of the node,"),
                        "source", one);
}

// The rule of the routing policy that leads to the table.
std::optional<netlink::PolicyRule> rule_to(netlink::RouteSocket& node, Family family,
                                           std::uint32_t table) {
  for (const netlink::PolicyRule& rule : node.policy_rules(family)) {
    if (rule.table == table) return rule;
  }
  return std::nullopt;
}

// The routing decisions of the node about the request, and about its answer.
std::vector<netlink::PacketPath> paths_of(const Case& one, netlink::RouteSocket& node) {
  const auto link_to = [&](const Ip& ip) {
    const auto path = node.path_to(ip);
    return path && !path->local ? path->link : 0;
  };
  const Ip to = destination_of(one.question);
  const auto& from = one.source;
  netlink::PacketPath request{.destination = to, .source = from, .mark = one.trail.mark};
  if (one.sender != nullptr && from) request.in = link_to(*from);
  std::vector<netlink::PacketPath> out{request};
  // What a host beyond the node answers comes by the uplink, and its source is translated back.
  if (one.question.about != About::kWayOut && from) {
    out.push_back({.destination = *from, .source = to, .in = link_to(to)});
  }
  return out;
}

Cause led_away(const netlink::PolicyRule& rule, const netlink::PacketPath& path,
               const std::string& link, const netlink::Cidr& subnet) {
  const std::string ip = path.destination.is_v4() ? "ip rule" : "ip -6 rule";
  const std::string text = rule.from ? cat("from ", rule.from->str(), " lookup ", rule.table)
                                     : cat("lookup ", rule.table);
  const char* const side = rule.from ? "from " : "to ";
  return {cat("the node's rule of priority ", rule.priority, " (", text, ") leads packets to '",
              link, "'"),
          "of a VPN or a person",
          rule.priority == 0
              ? cat(ip, " del priority 0 lookup ", rule.table)
              : cat(ip, " add ", side, subnet.str(), " lookup main priority ", rule.priority - 1)};
}

// The subnet of the pod whose address a path has at that side.
netlink::Cidr subnet_at(const Case& one, const Ip& ip) {
  for (const Subject* const pod : {&one.subject, one.sender}) {
    if (pod == nullptr) continue;
    const netlink::Cidr subnet = subnet_of(*pod, ip.family());
    if (subnet.contains(ip)) return subnet;
  }
  return {ip, ip.bits()};
}

std::optional<Cause> routed_by_rule(const Case& one, netlink::RouteSocket& node) {
  for (const netlink::PacketPath& path : paths_of(one, node)) {
    const auto found = node.match(path);
    const std::uint32_t table = found ? found->route.table : kMainTable;
    if (!found || found->local || table == kMainTable || table == kLocalTable ||
        table == kDefaultTable) {
      continue;
    }
    const auto rule = rule_to(node, path.destination.family(), table);
    const auto link = node.find(found->route.link);
    if (!rule) continue;
    const Ip& side = rule->from && path.source ? *path.source : path.destination;
    return led_away(*rule, path, link ? printable(link->name) : "?", subnet_at(one, side));
  }
  return std::nullopt;
}

// A route that drops what the pods send or receive, if no other one is more specific.
std::optional<Cause> refused_by_route(const Case& one, netlink::RouteSocket& node) {
  for (const auto& ip : {std::optional(destination_of(one.question)), one.source}) {
    if (!ip) continue;
    std::optional<netlink::LinkRoute> found;
    const auto consider = [&](const netlink::LinkRoute& route) {
      if (route.table != kMainTable || route.dst.is_default() || !route.dst.contains(*ip)) return;
      if (!found || route.dst.prefix > found->dst.prefix) found = route;
    };
    for (const auto& route : node.routes(ip->family())) consider(route);
    for (const auto& route : node.refusals(ip->family())) consider(route);
    const std::string refusal = found ? netlink::refusal_of(*found) : "";
    if (refusal.empty()) continue;
    const std::string text = cat(refusal, " ", found->dst.str());
    return Cause{cat("the node's route '", text, "' drops packets"),
                 "of another program or a person",
                 cat("ip ", ip->is_v4() ? "" : "-6 ", "route del ", text)};
  }
  return std::nullopt;
}

std::optional<Cause> not_forwarded(const Case& one, netlink::RouteSocket& node) {
  const netlink::PacketPath path = paths_of(one, node).front();
  const auto link = path.in != 0 ? node.find(path.in) : std::nullopt;
  if (!link || one.answer.kind == Answer::Kind::kNotSent) return std::nullopt;
  const std::vector<std::string> keys =
      path.destination.is_v4() ? std::vector{std::string("net/ipv4/ip_forward"),
                                             cat("net/ipv4/conf/", link->name, "/forwarding")}
                               : std::vector{std::string("net/ipv6/conf/all/forwarding")};
  for (const std::string& key : keys) {
    if (netlink::read_sysctl(key).value_or("1") != "0") continue;
    return Cause{cat("the node does not forward packets: ", printable(key), " is 0"), "",
                 cat("sysctl -w ", quoted(key), "=1")};
  }
  return std::nullopt;
}

std::optional<Cause> without_route(const Case& one, netlink::RouteSocket& node) {
  const auto paths = paths_of(one, node);
  if (node.match(paths.front())) return std::nullopt;
  const Ip& to = paths.front().destination;
  return Cause{cat("the node has no way for packets to ", to.str()), "",
               cat("ip ", to.is_v4() ? "" : "-6 ", "route get ", to.str())};
}

// What the node believes about the pods' hardware addresses.
std::optional<Cause> wrong_neighbour(const Case& one, netlink::RouteSocket& node) {
  for (const Subject* const pod : {&one.subject, one.sender}) {
    if (pod == nullptr) continue;
    const auto mac = mac_of(*pod);
    for (const cni::Address& address : pod->result.ips) {
      const Ip& ip = address.cidr.ip;
      const auto path = mac ? node.path_to(ip) : std::nullopt;
      const auto found = path ? netlink::find_neighbour(node, path->link, ip) : std::nullopt;
      const auto link = found ? node.find(found->link) : std::nullopt;
      if (!link || !found->mac || *found->mac == *mac || !found->is_permanent()) continue;
      return Cause{cat("the node's permanent neighbour ", ip.str(), " on '", printable(link->name),
                       "' is ", found->mac->str(), ", and the pod has ", mac->str()),
                   "of a person or another program",
                   cat("ip neigh del ", ip.str(), " dev ", quoted(link->name))};
    }
  }
  return std::nullopt;
}

std::optional<Cause> too_large(const Case& one, netlink::RouteSocket& node) {
  const Packet& packet = one.question.packet;
  const auto path = node.path_to(destination_of(one.question));
  const auto link = path ? node.find(path->link) : std::nullopt;
  if (link && link->mtu != 0 && link->mtu < packet.size) {
    return Cause{
        cat("'", printable(link->name), "' takes ", link->mtu, " bytes, and the pods send up to ",
            packet.size),
        "", cat("restart the pods with \"mtu\": ", link->mtu, " in the config of their network")};
  }
  if (one.small_is_lost) return std::nullopt;
  if (!one.question.must_answer && !one.answer.says_too_large()) return std::nullopt;
  return Cause{cat("packets of ", packet.size, " bytes are lost, and smaller ones are not"), "",
               "restart the pods with a smaller \"mtu\" in the config of their network"};
}

std::optional<Cause> refused(const Case& one, const NodeFacts& facts) {
  if (one.answer.kind == Answer::Kind::kNotSent) {
    const std::string reason = std::generic_category().message(one.answer.error);
    return Cause{cat("the ", one.sender == nullptr ? "node" : "pod", " cannot send it: ", reason),
                 "", "cnitool doctor"};
  }
  if (one.answer.kind != Answer::Kind::kRefused) return std::nullopt;
  const bool is_own = one.answer.from == one.source || facts.has(*one.answer.from);
  if (is_own && one.answer.says_no_neighbour())
    return std::nullopt;  // it waited, and others did not
  return Cause{one.answer.str(), "", ""};
}

}  // namespace

bool went_astray(const Case& one, const NodeFacts& facts) {
  return one.flow.has_value() && translated(one, facts).has_value();
}

std::optional<Cause> cause_of(const Case& one, netlink::RouteSocket& node, const NodeFacts& facts) {
  if (auto cause = drop_in(one.trail.request, one)) return cause;
  if (auto cause = drop_in(one.trail.answer, one)) return cause;
  if (auto cause = translated(one, facts)) return cause;
  if (one.answer.kind != Answer::Kind::kNotSent) {
    if (auto cause = routed_by_rule(one, node)) return cause;
  }
  if (auto cause = wrong_neighbour(one, node)) return cause;
  if (one.question.packet.size != 0) {
    auto cause = too_large(one, node);
    if (cause || !one.small_is_lost) return cause;
  }
  if (auto cause = refused_by_route(one, node)) return cause;
  if (!facts.has(destination_of(one.question))) {
    if (auto cause = not_forwarded(one, node)) return cause;
  }
  if (one.answer.kind != Answer::Kind::kNotSent) {
    if (auto cause = without_route(one, node)) return cause;
  }
  return refused(one, facts);
}

}  // namespace tool::probe
