#include "cnitool/probe/asked.h"

#include <algorithm>

#include "cnitool/output.h"
#include "cnitool/probe/scene.h"

namespace tool::probe {

namespace {

// "", " TCP port 80".
std::string at_port(const Target& target) {
  if (target.port == 0) return {};
  return cat(target.is_udp ? " UDP port " : " TCP port ", target.port);
}

Kind kind_to(const Target& target) {
  if (target.port == 0) return Kind::kEcho;
  return target.is_udp ? Kind::kDns : Kind::kSyn;
}

// Who serves something else by UDP than names may say nothing to a query.
bool must_answer(const Target& target) {
  constexpr std::uint16_t kDnsPort = 53;
  return !target.is_udp || target.port == kDnsPort;
}

bool has_interface_in(const Choice& pods, const std::string& container,
                      const std::string& network) {
  return std::ranges::any_of(pods.subjects, [&](const Subject& one) {
    return one.key.container_id == container && one.key.network == network;
  });
}

Question question_to(const Target& target, const std::optional<Ip>& source, const Ip& ip) {
  return {.about = About::kAsked,
          .packet = {.kind = kind_to(target), .source = source, .target = ip, .port = target.port},
          .must_answer = must_answer(target)};
}

// Whether the pod's config lets the other one in.
bool takes(const Subject& one, const Subject& other) {
  return one.key.network == other.key.network ? one.takes_neighbours : one.takes_networks;
}

// Whether the interface is the one of its pod by which the other is asked.
bool leads_to(const Choice& pods, const Subject& from, const Subject& to) {
  if (from.key.container_id == to.key.container_id) return false;
  if (from.key.network == to.key.network) return true;
  return from.is_routed && to.is_routed &&
         !has_interface_in(pods, from.key.container_id, to.key.network);
}

}  // namespace

std::vector<Question> questions_to(const Choice& pods, const Target& target) {
  std::vector<Question> out;
  for (std::size_t i = 0; i < pods.subjects.size(); ++i) {
    const auto ip = address_of(pods.subjects[i], target.ip.family());
    if (!pods.asked[i] || !ip) continue;
    Question one = question_to(target, ip, target.ip);
    one.subject = i;
    one.sender = i;
    one.text = cat(pods.subjects[i].name, " to ", target.ip.str(), at_port(target));
    out.push_back(std::move(one));
  }
  return out;
}

std::vector<Question> questions_to_pod(const Choice& pods, const Target& target,
                                       const std::set<std::string>& containers) {
  std::vector<Question> out;
  const bool is_whole_node = std::ranges::find(pods.asked, false) == pods.asked.end();
  for (std::size_t to = 0; to < pods.subjects.size(); ++to) {
    const Subject& wanted = pods.subjects[to];
    if (!containers.contains(wanted.key.container_id)) continue;
    for (const netlink::Family family : netlink::kFamilies) {
      const auto ip = address_of(wanted, family);
      const auto push = [&](Question one, const std::string& who) {
        one.about = About::kPod;
        one.subject = to;
        one.text = cat(who, " to ", wanted.name, " ", ip->str(), at_port(target));
        out.push_back(std::move(one));
      };
      if (!ip) continue;
      if (is_whole_node && wanted.is_routed) push(question_to(target, {}, *ip), "the node");
      for (std::size_t from = 0; from < pods.subjects.size(); ++from) {
        const Subject& asker = pods.subjects[from];
        const auto source = address_of(asker, family);
        if (!pods.asked[from] || !source || !leads_to(pods, asker, wanted)) continue;
        Question one = question_to(target, source, *ip);
        one.sender = from;
        one.must_answer = one.must_answer && takes(wanted, asker);
        push(std::move(one),
             takes(wanted, asker) ? asker.name : cat(asker.name, " (which is not to reach it)"));
      }
    }
  }
  return out;
}

std::vector<Question> questions_to_name_servers(const Choice& pods) {
  std::vector<Question> out;
  for (std::size_t i = 0; i < pods.subjects.size(); ++i) {
    if (pods.asked[i]) add_name_servers(pods.subjects[i], i, out);
  }
  return out;
}

std::vector<Question> questions_from(const Choice& pods, const NodeFacts& node, const Ip& source) {
  std::vector<Question> out;
  const auto push = [&](std::size_t subject, Packet packet, const std::string& what) {
    packet.source = source;
    out.push_back({.about = About::kOutside,
                   .subject = subject,
                   .packet = packet,
                   .text = cat(source.str(), " to ", what, pods.subjects[subject].name)});
    return &out.back();
  };
  for (std::size_t i = 0; i < pods.subjects.size(); ++i) {
    const Subject& one = pods.subjects[i];
    const auto ip = address_of(one, source.family());
    if (!pods.asked[i] || !ip) continue;
    if (one.is_routed && one.takes_networks) {
      push(i, {.target = *ip}, "")->text += cat(" ", ip->str());
    }
    const auto& uplink = node.uplink(source.family());
    for (const HostPort& port : one.host_ports) {
      const auto given = Ip::parse(port.ip);
      const bool is_any = !given || given->is_unspecified();
      const auto at = is_any ? uplink ? std::optional(uplink->own) : std::nullopt : given;
      if (!is_probed(port)) continue;
      if (!at || at->is_loopback() || at->family() != source.family()) continue;
      if (given && given->family() != source.family()) continue;
      Question& question = *push(
          i, {.kind = kind_of(port), .target = *at, .port = static_cast<std::uint16_t>(port.host)},
          cat(name_of(port), " at ", at->str(), " of "));
      question.destination = *ip;
      question.destination_port = static_cast<std::uint16_t>(port.container);
      question.must_answer = port.protocol != "udp";
    }
  }
  return out;
}

}  // namespace tool::probe
