#include "cnitool/probe/question.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cnitool/delegate.h"
#include "cnitool/json_at.h"
#include "cnitool/known_plugins.h"
#include "cnitool/output.h"
#include "cnitool/probe/scene.h"
#include "libcni/runtime/conflist.h"
#include "netlink/route/socket.h"

namespace tool::probe {

namespace {

using netlink::Family;
using nlohmann::json;

constexpr std::uint8_t kTwoHops = 2;  // the node, and the first hop beyond it

void read_list(const cni::NetworkList& list, Subject& out) {
  for (const cni::PluginConf& one : list.plugins) {
    const cni::PluginConf plugin = effective(one);
    if (!plugin.conf->is_object()) continue;
    const json& conf = *plugin.conf;
    const cni::Facts facts = facts_of(plugin.type);
    const bool is_gateway = is_true(conf, "isGateway") || is_true(conf, "isDefaultGateway");
    out.is_routed |= facts.has(cni::Fact::kRouted) || (facts.has(cni::Fact::kBridge) && is_gateway);
    if (facts.has(cni::Fact::kBridge)) {
      out.bridge = text_at(conf, "bridge", "cni0");
      out.has_vlan = member(conf, "vlan") != nullptr || member(conf, "vlanTrunk") != nullptr;
    }
    out.is_masqueraded |= is_true(conf, "ipMasq") && strings_at(conf, "ipMasqExcept").empty();
    if (is_true(conf, "portIsolation")) out.takes_neighbours = false;
    // Of macvlan: to each other they send nothing, or what the switch sends back.
    for (const char* const key : {"mode", "flags"}) {  // of macvlan, and of ipvlan
      const std::string mode = text_at(conf, key, "");
      if (mode == "private" || mode == "vepa") out.takes_neighbours = false;
    }
    const std::string policy = text_at(conf, "ingressPolicy", "open");
    if (policy != "open") out.takes_networks = false;
    if (policy == "isolated") out.takes_neighbours = false;
    const json* const snat = member(conf, "snat");
    if (snat != nullptr && snat->is_boolean() && !snat->get<bool>()) out.maps_loopback = false;
  }
}

bool has_default_route(const Subject& one, Family family) {
  return std::ranges::any_of(one.result.routes, [&](const cni::Route& route) {
    return route.dst.is_default() && route.dst.ip.family() == family;
  });
}

// Of a segment without a router IPAM plugins name a gateway, too, which nobody has.
bool has_route_by(const Subject& one, const Ip& gateway) {
  return std::ranges::any_of(one.result.routes, [&](const cni::Route& route) {
    return route.dst.ip.family() == gateway.family() && route.gateway.value_or(gateway) == gateway;
  });
}

// What its interface takes, and what its result says of the route that decides. 0: unknown.
std::size_t largest_to(const Subject& one, const Ip& target) {
  int best = -1;
  unsigned mtu = 0;
  for (const cni::Address& each : one.result.ips) {
    if (each.cidr.contains(target)) best = std::max(best, static_cast<int>(each.cidr.prefix));
  }
  for (const cni::Route& each : one.result.routes) {
    const int prefix = static_cast<int>(each.dst.prefix);
    if (!each.dst.contains(target) || prefix <= best) continue;
    best = prefix;
    mtu = each.mtu;
  }
  return mtu == 0 ? one.link.mtu : std::min(mtu, one.link.mtu);
}

/// Makes the questions about one pod.
class Plan {
 public:
  Plan(const std::vector<Subject>& subjects, const NodeFacts& node)
      : subjects_(subjects), node_(node) {
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      auto& members = by_network_[subjects[i].key.network];
      ranks_.push_back(members.size());
      members.push_back(i);
    }
  }

  void ask_about(std::size_t index) {
    const Subject& one = subjects_[index];
    for (const cni::Address& address : addresses_of(one)) {
      ask_about_gateway(index, address);
      if (one.is_routed) ask_from_node(index, address.cidr.ip);
      ask_about_pods(index, address.cidr.ip);
      if (one.is_routed) ask_about_way_out(index, address.cidr.ip);
    }
    add_name_servers(one, index, out_);
    ask_about_ports(index);
  }
  std::vector<Question> take() { return std::move(out_); }

 private:
  void push(Question question, const std::string& text) {
    question.text = text;
    out_.push_back(std::move(question));
  }

  // A router of others may answer no echo: that the link layer finds it is enough.
  void ask_about_gateway(std::size_t index, const cni::Address& address) {
    if (!address.gateway || address.gateway->is_unspecified()) return;
    const Subject& one = subjects_[index];
    const Ip& gateway = *address.gateway;
    const bool is_own = node_.has(gateway);
    if (!is_own && !one.is_routed && !has_route_by(one, gateway)) return;
    Question question{.about = About::kGateway,
                      .subject = index,
                      .sender = index,
                      .packet = {.source = address.cidr.ip, .target = gateway},
                      .must_answer = is_own};
    push(question, cat(one.name, " to its gateway ", gateway.str()));
    const std::size_t mtu = largest_to(one, gateway);
    if (!is_own || mtu == 0) return;
    question.about = About::kSize;
    question.packet.size = mtu;
    push(question, cat(one.name, " to its gateway ", gateway.str(), " with ", mtu, " bytes"));
  }

  void ask_from_node(std::size_t index, const Ip& ip) {
    push({.about = About::kFromNode, .subject = index, .packet = {.target = ip}},
         cat("the node to ", subjects_[index].name, " ", ip.str()));
  }

  void ask_about_pod(std::size_t index, std::size_t other, const Ip& ip) {
    const auto target = address_of(subjects_[other], ip.family());
    if (other == index || !target) return;
    push({.about = About::kPod,
          .subject = other,
          .sender = index,
          .packet = {.source = ip, .target = *target}},
         cat(subjects_[index].name, " to ", subjects_[other].name, " ", target->str()));
  }

  // The next one of its own network, and the one of its rank of each other: with all of them every
  // pod is asked, and pods of one rank ask each other.
  void ask_about_pods(std::size_t index, const Ip& ip) {
    const Subject& one = subjects_[index];
    for (const auto& [network, members] : by_network_) {
      const bool is_own = network == one.key.network;
      const std::size_t next = ranks_[index] + (is_own ? 1 : 0);
      const std::size_t other = members[next % members.size()];
      const Subject& target = subjects_[other];
      if (is_own ? !target.takes_neighbours || !one.takes_neighbours
                 : !target.takes_networks || !one.takes_networks || !target.is_routed ||
                       !one.is_routed || !has_default_route(one, ip.family())) {
        continue;
      }
      ask_about_pod(index, other, ip);
    }
  }

  void ask_about_way_out(std::size_t index, const Ip& ip) {
    const auto& uplink = node_.uplink(ip.family());
    if (!uplink || !has_default_route(subjects_[index], ip.family())) return;
    // Of router advertisements: no packet to it leaves the pod's own link.
    if (!ip.is_v4() && uplink->gateway.is_link_local()) return;
    Question question{.about = About::kWayOut,
                      .subject = index,
                      .sender = index,
                      .packet = {.source = ip, .target = uplink->gateway, .ttl = kTwoHops},
                      .must_answer = false};
    const std::string text =
        cat(subjects_[index].name, " to the node's gateway ", uplink->gateway.str());
    push(question, text);
    const std::size_t mtu = largest_to(subjects_[index], uplink->gateway);
    if (mtu == 0) return;
    question.about = About::kSize;
    question.packet.size = mtu;
    push(question, cat(text, " with ", mtu, " bytes"));
  }

  void ask_about_ports(std::size_t index) {
    for (const HostPort& port : subjects_[index].host_ports) {
      if (!is_probed(port)) continue;
      const auto given = Ip::parse(port.ip);
      for (const Family family : netlink::kFamilies) {
        const auto pod = address_of(subjects_[index], family);
        const bool is_any = !given || given->is_unspecified();
        if (!pod || (given && given->family() != family)) continue;
        ask_about_port(index, port, is_any ? std::nullopt : given, *pod);
      }
    }
  }

  void ask_about_port(std::size_t index, const HostPort& port, const std::optional<Ip>& given,
                      const Ip& pod) {
    const auto& uplink = node_.uplink(pod.family());
    const auto address = given ? given : uplink ? std::optional(uplink->own) : std::nullopt;
    Question question{
        .about = About::kHostPort,
        .subject = index,
        .packet = {.kind = kind_of(port), .port = static_cast<std::uint16_t>(port.host)},
        .destination = pod,
        .destination_port = static_cast<std::uint16_t>(port.container),
        .must_answer = port.protocol != "udp"};
    const std::string what = cat(" of ", subjects_[index].name);
    const bool is_loopback = address && address->is_loopback();  // of the node: pods have their own
    if (address && (!is_loopback || subjects_[index].maps_loopback)) {
      question.packet.target = *address;
      push(question, cat("the node to ", name_of(port), " at ", address->str(), what));
      if (!is_loopback)
        ask_about_port_from_pod(question, cat(name_of(port), " at ", address->str(), what));
    }
    if (given || !pod.is_v4() || !subjects_[index].maps_loopback) return;
    question.packet.source.reset();
    question.sender.reset();
    question.packet.target = *Ip::parse("127.0.0.1");
    push(question, cat("the node to ", name_of(port), " at 127.0.0.1", what));
  }

  void ask_about_port_from_pod(Question question, const std::string& what) {
    const Family family = question.packet.target.family();
    const std::size_t index = question.subject;
    for (std::size_t step = 1; step < subjects_.size(); ++step) {
      const std::size_t other = (index + step) % subjects_.size();
      const Subject& one = subjects_[other];
      const auto ip = address_of(one, family);
      const bool is_neighbour = one.key.network == subjects_[index].key.network;
      const bool is_taken =
          is_neighbour ? subjects_[index].takes_neighbours : subjects_[index].takes_networks;
      if (!ip || !one.is_routed || !is_taken || !has_default_route(one, family)) continue;
      question.sender = other;
      question.packet.source = ip;
      return push(question, cat(one.name, " to ", what));
    }
  }

  const std::vector<Subject>& subjects_;
  const NodeFacts& node_;
  std::map<std::string, std::vector<std::size_t>> by_network_;
  std::vector<std::size_t> ranks_;  ///< of the subjects in their networks
  std::vector<Question> out_;
};

}  // namespace

Subject subject_of(const cni::CachedAttachment& one) {
  const std::string pod = pod_name_of(one);
  Subject out{.key = one.key,
              .name = cat(pod.empty() ? printable(one.key.container_id.substr(0, 12)) : pod, " (",
                          printable(one.key.ifname), ")"),
              .netns = one.netns,
              .result = result_of(one),
              .host_ports = host_ports_of(one)};
  try {
    read_list(cni::list_from(one.config), out);
  } catch (const cni::Error&) {  // an entry of a runtime that keeps no config
  }
  return out;
}

std::vector<cni::Address> addresses_of(const Subject& one) {
  std::vector<cni::Address> out;
  for (const cni::Address& address : one.result.ips) {
    if (address.interface && *address.interface < one.result.interfaces.size()) {
      if (one.result.interfaces[*address.interface].name != one.key.ifname) continue;
    }
    const Family family = address.cidr.ip.family();
    const bool is_first = std::ranges::none_of(
        out, [&](const cni::Address& other) { return other.cidr.ip.family() == family; });
    if (is_first) out.push_back(address);
  }
  return out;
}

bool is_probed(const HostPort& port) {
  return (port.protocol == "tcp" || port.protocol == "udp") && port.host <= 65535 &&
         port.container <= 65535;
}

Kind kind_of(const HostPort& port) { return port.protocol == "udp" ? Kind::kDatagram : Kind::kSyn; }

std::string name_of(const HostPort& port) {
  return cat(port.protocol == "udp" ? "UDP " : "", "hostPort ", port.host);
}

Ip destination_of(const Question& question) {
  return question.destination.value_or(question.packet.target);
}

bool is_for_pod(const Question& question, const Subject& pod) {
  return std::ranges::any_of(pod.result.ips, [&](const cni::Address& one) {
    return one.cidr.ip == destination_of(question);
  });
}

std::optional<netlink::Mac> mac_of(const Subject& one) {
  for (const cni::Interface& interface : one.result.interfaces) {
    if (interface.name == one.key.ifname && !interface.sandbox.empty()) {
      return netlink::Mac::parse(interface.mac);
    }
  }
  return std::nullopt;
}

bool NodeFacts::has(const Ip& ip) const {
  return std::ranges::find(addresses, ip) != addresses.end();
}

NodeFacts look_at_node() {
  NodeFacts out;
  netlink::RouteSocket node;
  for (const netlink::LinkAddress& one : node.addresses()) out.addresses.push_back(one.cidr.ip);
  for (const Family family : netlink::kFamilies) {
    std::optional<std::uint32_t> best;  // the metric of the default route that decides
    for (const netlink::LinkRoute& route : node.routes(family)) {
      if (route.gateway) out.routers.push_back(*route.gateway);
      const bool is_way_out = route.dst.is_default() && route.table == 254 && route.gateway;
      if (!is_way_out || route.gateway->family() != family) continue;
      if (best && *best <= route.priority) continue;
      for (const netlink::LinkAddress& one : node.addresses()) {
        if (one.link != route.link || one.cidr.ip.family() != family) continue;
        if (one.cidr.ip.is_link_local()) continue;
        const auto link = node.find(route.link);
        (family == Family::kIpv4 ? out.v4 : out.v6) =
            NodeFacts::Uplink{one.cidr.ip, *route.gateway, link ? link->name : std::string()};
        best = route.priority;
        break;
      }
    }
  }
  return out;
}

std::vector<Question> questions_of(const std::vector<Subject>& subjects,
                                   const std::vector<bool>& asked, const NodeFacts& node) {
  Plan plan(subjects, node);
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    if (asked[i]) plan.ask_about(i);
  }
  return plan.take();
}

void add_name_servers(const Subject& one, std::size_t index, std::vector<Question>& out) {
  for (const std::string& text : one.result.dns.nameservers) {
    const auto server = Ip::parse(text);
    const auto ip = server ? address_of(one, server->family()) : std::nullopt;
    if (!ip) continue;
    for (const auto& [kind, by] : {std::pair(Kind::kDns, ""), std::pair(Kind::kSyn, " by TCP")}) {
      out.push_back({.about = About::kNameServer,
                     .subject = index,
                     .sender = index,
                     .packet = {.kind = kind, .source = ip, .target = *server, .port = 53},
                     .text = cat(one.name, " to its name server ", server->str(), by)});
    }
  }
}

}  // namespace tool::probe
