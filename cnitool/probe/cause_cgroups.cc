#include <algorithm>
#include <cerrno>
#include <set>

#include "cnitool/probe/causes.h"
#include "cnitool/probe/cgroups.h"
#include "libcni/common/error.h"

// eBPF programs of control groups: probes pass those of cnitool's own, and a pod's servers those of
// theirs.
namespace tool::probe {

namespace {

using cni::cat;
using netlink::bpf::CgroupHook;

Cause by_programs(const std::string& what, const std::vector<CgroupProgram>& programs) {
  return {cat("eBPF programs of a control group ", what, ": ", str(programs)), kSomebodys,
          command_to_show(programs.front().group)};
}

// Where nothing says that they did it.
std::optional<Cause> vague(std::optional<Cause> cause) {
  if (cause) cause->is_vague = true;
  return cause;
}

std::optional<Cause> by_own(const char* what, const std::vector<CgroupHook>& hooks) {
  const auto programs = CgroupPrograms(hooks).of(own_cgroup());
  if (programs.empty()) return std::nullopt;
  return by_programs(cat(what, " cnitool itself"), programs);
}

// Of the processes in the namespace, which may be in several groups.
std::optional<Cause> by_those_in(const DropPlace& place, std::uint64_t netns, const char* what,
                                 CgroupHook hook) {
  const auto groups = cgroups_by_netns();
  const auto found = groups.find(netns);
  CgroupPrograms known({hook});
  std::vector<CgroupProgram> programs;
  for (const std::string& group : found == groups.end() ? std::set<std::string>() : found->second) {
    for (CgroupProgram& one : known.of(group)) {
      if (std::ranges::find(programs, one) == programs.end()) programs.push_back(std::move(one));
    }
  }
  if (programs.empty()) return std::nullopt;
  const std::string whom =
      place.pod.empty() ? "servers of the node" : cat("servers of the pod ", place.pod);
  return by_programs(cat(what, " ", whom), programs);
}

}  // namespace

std::optional<Cause> dropped_by_cgroup(const Drop& drop, const DropPlace& place) {
  const bool is_out = drop.reason == "BPF_CGROUP_EGRESS";
  if (!is_out && drop.reason != "SOCKET_FILTER") return std::nullopt;
  const bool is_own = is_out == (drop.of == Drop::Of::kRequest);  // the sockets are cnitool's
  const CgroupHook hook = is_out ? CgroupHook::kEgress : CgroupHook::kIngress;
  const char* const what = is_out ? "drop packets sent by" : "drop packets to";
  return is_own ? by_own(what, {hook}) : by_those_in(place, drop.netns, what, hook);
}

// Raw sockets drop what their filters do not take, too, so that no drop says it.
std::optional<Cause> kept_by_own_cgroup(const Look& look) {
  if (!look.leg.is_answer) return std::nullopt;
  return vague(by_own("drop packets to", {CgroupHook::kIngress}));
}

std::optional<Cause> refused_by_own_cgroup(const Look& look) {
  if (look.one.answer.kind != Answer::Kind::kNotSent || look.one.answer.error != EPERM)
    return std::nullopt;
  return vague(
      by_own("refuse packets of", {CgroupHook::kEgress, CgroupHook::kConnect4,
                                   CgroupHook::kConnect6, CgroupHook::kSend4, CgroupHook::kSend6}));
}

}  // namespace tool::probe
