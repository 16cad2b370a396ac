#include "cnitool/probe/unseen.h"

#include <algorithm>
#include <set>

#include "cnitool/output.h"
#include "cnitool/probe/causes.h"
#include "cnitool/probe/cgroups.h"
#include "netlink/netns.h"
#include "netlink/route/link_settings.h"
#include "netlink/route/socket.h"

namespace tool::probe {

std::vector<std::string> unseen_programs(const std::vector<Subject>& subjects,
                                         const std::vector<bool>& asked) {
  using netlink::bpf::CgroupHook;
  constexpr std::size_t kMost = 8;  // sentences
  CgroupPrograms programs({CgroupHook::kIngress, CgroupHook::kEgress, CgroupHook::kConnect4,
                           CgroupHook::kConnect6, CgroupHook::kSend4, CgroupHook::kSend6});
  const auto own = programs.of(own_cgroup());
  const auto groups = cgroups_by_netns();
  std::vector<std::string> out;
  for (std::size_t i = 0; i < subjects.size() && out.size() < kMost; ++i) {
    const auto ns = asked[i] ? netlink::NetNs::id_at(subjects[i].netns) : std::nullopt;
    const auto found = ns ? groups.find(ns->inode) : groups.end();
    if (found == groups.end()) continue;
    std::vector<CgroupProgram> unseen;
    for (const std::string& group : found->second) {
      for (CgroupProgram& one : programs.of(group)) {
        const bool is_known = std::ranges::find(own, one) != own.end() ||
                              std::ranges::find(unseen, one) != unseen.end();
        if (!is_known) unseen.push_back(std::move(one));
      }
    }
    if (unseen.empty()) continue;
    out.push_back(cat("packets of processes of the pod ", subjects[i].name,
                      " pass eBPF programs that probes do not: ", str(unseen)));
  }
  return out;
}

std::vector<std::string> unseen_drivers(const NodeFacts& facts) {
  netlink::RouteSocket node;
  std::set<std::string> out;
  for (const netlink::Family family : netlink::kFamilies) {
    const auto& uplink = facts.uplink(family);
    const auto link = uplink ? node.find(uplink->link) : std::nullopt;
    if (!link) continue;
    const auto xdp = netlink::settings_of(node, *link).xdp;
    if (xdp.driver == 0 && xdp.hardware == 0) continue;
    out.insert(cat("no kernel says what the XDP program ", xdp_program_of(node, *link), " of '",
                   printable(link->name), "' takes: it may have taken answers to probes"));
  }
  return {out.begin(), out.end()};
}

}  // namespace tool::probe
