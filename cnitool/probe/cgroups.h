#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "netlink/bpf/attached.h"

/// Control groups (cgroup v2), and the eBPF programs that packets of their processes' sockets pass,
/// as those of systemd's IPAddressDeny=.
namespace tool::probe {

/// A program, and the group that it is attached to.
struct CgroupProgram {
  std::string group;  ///< "/kubepods.slice/x.scope", as /proc/PID/cgroup has it
  std::uint32_t id = 0;
  std::string name = {};  ///< empty: unknown
  auto operator<=>(const CgroupProgram&) const = default;
};

/// "'sd_fw_egress' (id 17) of the control group /system.slice/x.service", all of them.
std::string str(const std::vector<CgroupProgram>& programs);
/// A command that lists the programs of a group.
std::string command_to_show(const std::string& group);

/// The group of this process; empty: unknown.
std::string own_cgroup();
/// The groups of all processes that this one sees, by the inodes of their network namespaces.
std::map<std::uint64_t, std::set<std::string>> cgroups_by_netns();
/// The programs of groups, each of which is asked once.
class CgroupPrograms {
 public:
  explicit CgroupPrograms(std::vector<netlink::bpf::CgroupHook> hooks);
  /// What is attached to the group and to those above it: its own first. Empty where the caller may
  /// not ask. \throws netlink::Error.
  std::vector<CgroupProgram> of(const std::string& group);

 private:
  const std::vector<CgroupProgram>& attached_to(const std::string& group);

  std::vector<netlink::bpf::CgroupHook> hooks_;
  std::string root_;
  std::map<std::string, std::vector<CgroupProgram>> known_;
};

}  // namespace tool::probe
