#include "cnitool/probe/drop_cause.h"

#include <algorithm>
#include <array>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"
#include "cnitool/probe/causes.h"
#include "cnitool/probe/drop_words.h"
#include "netlink/bpf/attached.h"
#include "netlink/netns.h"
#include "netlink/nf/legacy_table.h"
#include "netlink/tc/list.h"
#include "netlink/types/error.h"

namespace tool::probe {

namespace {

using netlink::Family;
using netlink::NetNs;

/// A drop, and the namespace that it was in.
struct DropScene {
  const Case& one;
  const Drop& drop;
  DropPlace place;
  NetNs ns;
};

std::string source_of(const Case& one, const Drop& drop) {
  const bool is_answer = drop.of == Drop::Of::kAnswer;
  if (is_answer) return one.question.destination.value_or(one.question.packet.target).str();
  return one.source ? one.source->str() : "them";
}

DropScene scene_of(const Case& one, const Drop& drop) {
  DropScene out{one, drop, {}, NetNs::current()};
  out.place.link = drop.link;
  out.place.source = source_of(one, drop);
  if (drop.netns == 0 || drop.netns == out.ns.id().inode) return out;
  for (const Subject* const pod : {one.sender, &one.subject}) {
    const auto ns = pod != nullptr ? NetNs::find(pod->netns) : std::nullopt;
    if (!ns || ns->id().inode != drop.netns) continue;
    out.place.pod = pod->name;
    out.place.netns = pod->netns;
    out.ns = *ns;
    break;
  }
  return out;
}

std::optional<netlink::Link> link_of(const DropScene& scene) {
  return netlink::RouteSocket(scene.ns).find(scene.drop.link);
}

// "filter bpf, priority 49152 (drop.o)", "program 17 (tcx)".
std::string filters_at(const DropScene& scene) {
  const bool is_ingress = scene.drop.reason == "TC_INGRESS";
  netlink::RouteSocket socket(scene.ns);
  const auto link = socket.find(scene.drop.link);
  if (!link) return {};
  std::string out;
  const auto add = [&](const std::string& text) { out += cat(out.empty() ? "" : ", ", text); };
  using netlink::tc::FilterState;
  for (const FilterState& one : netlink::tc::filters(
           socket, *link, is_ingress ? netlink::tc::kIngress : netlink::tc::kEgress)) {
    add(cat(one.kind, " of priority ", one.priority,
            one.program.empty() ? "" : cat(" (", printable(one.program), ")"),
            one.program_id == 0 ? "" : cat(", id ", one.program_id)));
  }
  const NetNs::Entered there(scene.ns);
  for (const std::uint32_t id : netlink::bpf::tcx_programs(link->index)) {
    const std::string name = netlink::bpf::program_name(id);
    add(cat("tcx program ", name.empty() ? "" : cat(printable(name), ", "), "id ", id));
  }
  return out;
}

std::string legacy_tables_of(const DropScene& scene) {
  const Family family = scene.one.question.packet.target.family();
  const NetNs::Entered there(scene.ns);
  return netlink::nf::legacy_tables(family);
}

// nf_tables would have traced it on the node.
std::optional<Cause> by_netfilter(const DropScene& scene) {
  if (scene.drop.reason != "NETFILTER_DROP") return std::nullopt;
  const std::string where = str(scene.place);
  const std::string at = where.empty() ? "" : cat(" at ", where);
  if (!scene.one.is_heard) {
    return Cause{cat("a rule drops packets", at), "",
                 cat(command_at(scene.place, "nft list ruleset"), "; ",
                     command_at(scene.place, "iptables-legacy-save -c"))};
  }
  if (scene.drop.of == Drop::Of::kNeighbour && scene.one.question.packet.target.is_v4()) {
    return Cause{cat("a rule drops ARP", at), "",
                 cat(command_at(scene.place, "nft list ruleset arp"), "; ",
                     command_at(scene.place, "arptables-legacy -vnL"))};
  }
  if (const std::string tables = legacy_tables_of(scene); !tables.empty()) {
    const bool is_v4 = scene.one.question.packet.target.is_v4();
    return Cause{
        cat("a rule of ", is_v4 ? "iptables-legacy" : "ip6tables-legacy", " drops packets",
            scene.place.pod.empty() ? "" : at, " (tables in use: ", tables, ")"),
        "of another program or a person",
        command_at(scene.place, is_v4 ? "iptables-legacy-save -c" : "ip6tables-legacy-save -c")};
  }
  if (!scene.place.pod.empty()) {
    return Cause{cat("a rule in the network namespace of the pod drops packets", at), "of the pod",
                 command_at(scene.place, "nft list ruleset")};
  }
  return Cause{cat("a hook of netfilter drops packets", at,
                   ", which is no rule of nf_tables: ebtables, IPVS, or an eBPF program"),
               "", "ebtables-legacy -L; ipvsadm -Ln; bpftool net", true};
}

std::optional<Cause> by_filter(const DropScene& scene) {
  if (!is_of_filter(scene.drop)) return std::nullopt;
  const DropWords words = words_of(scene.drop, scene.place);
  const std::string filters = filters_at(scene);
  return Cause{filters.empty() ? words.what : cat(words.what, ": ", filters),
               "of another program or a person", words.remedy};
}

std::optional<Cause> by_xdp(const DropScene& scene) {
  const auto link = is_of_xdp(scene.drop) ? link_of(scene) : std::nullopt;
  if (!link) return std::nullopt;
  netlink::RouteSocket socket(scene.ns);
  const DropWords words = words_of(scene.drop, scene.place);
  const std::string program = xdp_program_of(socket, *link);
  return Cause{program.empty() ? words.what : cat(words.what, ": ", program), kSomebodys,
               words.remedy};
}

std::optional<Cause> by_queue(const DropScene& scene) {
  if (!is_of_queue(scene.drop)) return std::nullopt;
  const DropWords words = words_of(scene.drop, scene.place);
  const auto link = link_of(scene);
  using netlink::OperState;
  const OperState state = link ? link->oper_state : OperState::kUnknown;
  if (state == OperState::kDown || state == OperState::kLowerLayerDown) {
    return Cause{cat(str(scene.place), " has no carrier"), "",
                 command_at(scene.place, cat("ip -d link show dev ", doctor::quoted(link->name)))};
  }
  const std::size_t size = scene.one.small_is_lost ? 0 : scene.one.question.packet.size;
  return Cause{cat(words.what, link ? cat(": qdisc ", printable(link->qdisc)) : "",
                   size != 0 ? cat(", packets of ", size, " bytes") : ""),
               "", words.remedy};
}

std::optional<Cause> by_cgroup(const DropScene& scene) {
  return dropped_by_cgroup(scene.drop, scene.place);
}

using Reading = std::optional<Cause> (*)(const DropScene&);
constexpr Reading kReadings[] = {by_netfilter, by_filter, by_xdp, by_queue, by_cgroup};

// Of neighbours only what is known to matter: much of what they send is for nobody. A bridge sends
// copies to all pods where it does not know the MAC address.
bool says_something(const DropScene& scene, const DropWords& words) {
  const Drop& drop = scene.drop;
  if (drop.of == Drop::Of::kNeighbour) return words.is_certain;
  if (drop.reason != "OTHERHOST") return true;
  const Subject* const pod = drop.of == Drop::Of::kAnswer ? scene.one.sender : &scene.one.subject;
  const bool is_pods =
      drop.of == Drop::Of::kAnswer || is_for_pod(scene.one.question, scene.one.subject);
  return is_pods && pod != nullptr && scene.place.netns == pod->netns;
}

}  // namespace

std::optional<Cause> refused_by_policy(const Case& one) {
  constexpr std::array kReasons{"IP_INNOROUTES", "IP_OUTNOROUTES", "IP_INADDRERRORS",
                                "NOT_SPECIFIED", ""};
  constexpr std::array kSymbols{"ip_error", "ip6_pkt_drop", "dst_discard_out"};
  for (const Drop& drop : one.trail.drops) {
    if (std::ranges::find(kSymbols, drop.symbol) == kSymbols.end() ||
        std::ranges::find(kReasons, drop.reason) == kReasons.end()) {
      continue;
    }
    if (drop.link == "lo") continue;  // only what a filter redirects comes there
    const DropScene scene = scene_of(one, drop);
    const bool is_v4 = one.question.packet.target.is_v4();
    const std::string ip = is_v4 ? "ip " : "ip -6 ";
    const bool has_mark = drop.of == Drop::Of::kRequest && one.trail.mark != 0;
    return Cause{cat("the routing policy refuses packets",
                     has_mark ? cat(" with mark ", one.trail.mark, ", which a rule sets,") : "",
                     " from ", str(scene.place)),
                 "of another program or a person",
                 cat(command_at(scene.place, cat(ip, "rule")), "; ",
                     command_at(scene.place, cat(ip, "route show table all type blackhole"))),
                 true};
  }
  return std::nullopt;
}

bool kept_by_programs(const Case& one) {
  return std::ranges::any_of(one.trail.drops, [&](const Drop& drop) {
    return drop.of == Drop::Of::kRequest && by_cgroup(scene_of(one, drop)).has_value();
  });
}

std::optional<Cause> cause_of_drops(const Case& one, Evidence least) {
  if (one.answer.is_delivered()) return std::nullopt;
  for (const Drop& drop : one.trail.drops) {
    const DropScene scene = scene_of(one, drop);
    for (const Reading read : kReadings) {
      if (auto cause = read(scene)) return cause;
    }
    const DropWords words = words_of(drop, scene.place);
    if (!says_something(scene, words)) continue;
    // A host that may answer nobody is no finding for what is not certain.
    const bool is_enough = least == Evidence::kAny && one.question.must_answer;
    if (words.is_certain || is_enough)
      return Cause{words.what, "", words.remedy, !words.is_certain};
  }
  return std::nullopt;
}

}  // namespace tool::probe
