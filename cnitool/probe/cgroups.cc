#include "cnitool/probe/cgroups.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"
#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "libcni/common/split.h"
#include "netlink/netns.h"
#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace tool::probe {

namespace {

using cni::cat;

std::string text_of(const std::string& path) {
  try {
    return netlink::read_file(path).value_or("");
  } catch (const netlink::Error&) {  // a process that ends meanwhile
    return "";
  }
}

// Where the file system of cgroup v2 is mounted, as proc_pid_mountinfo(5) has it; empty: nowhere.
std::string mount_point() {
  constexpr std::size_t kMountPoint = 4;
  const std::string mounts = text_of("/proc/self/mountinfo");
  for (const auto line : cni::split(mounts, "\n")) {
    if (line.find(" - cgroup2 ") == line.npos) continue;
    const auto fields = cni::split(line, " ");
    if (fields.size() > kMountPoint) return std::string(fields[kMountPoint]);
  }
  return {};
}

// One outside of the namespace of control groups begins with "/..": its folder is not to be found.
std::string group_of(const std::string& process) {
  constexpr std::string_view kUnified = "0::";  // cgroups(7)
  const std::string groups = text_of(cat(process, "/cgroup"));
  for (const auto line : cni::split(groups, "\n")) {
    if (!line.starts_with(kUnified) || line.starts_with("0::/..")) continue;
    return std::string(line.substr(kUnified.size()));
  }
  return {};
}

std::string above(const std::string& group) {
  const auto end = group.rfind('/');
  if (group == "/" || end == group.npos) return {};
  return end == 0 ? "/" : group.substr(0, end);
}

}  // namespace

std::string str(const std::vector<CgroupProgram>& programs) {
  std::string out;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const CgroupProgram& one = programs[i];
    out += cat(i == 0 ? "" : ", ", one.name.empty()
                                       ? cat("program ", one.id)
                                       : cat("'", printable(one.name), "' (id ", one.id, ")"));
    const bool is_last = i + 1 == programs.size() || programs[i + 1].group != one.group;
    if (is_last) out += cat(" of the control group ", printable(one.group));
  }
  return out;
}

std::string command_to_show(const std::string& group) {
  return cat("bpftool cgroup show ", doctor::quoted(cat(mount_point(), group)));
}

std::string own_cgroup() { return group_of("/proc/self"); }

std::map<std::uint64_t, std::set<std::string>> cgroups_by_netns() {
  std::map<std::uint64_t, std::set<std::string>> out;
  for (const std::string& id : cni::names_in("/proc")) {
    if (id.find_first_not_of("0123456789") != id.npos) continue;
    const std::string process = cat("/proc/", id);
    const auto ns = netlink::NetNs::id_at(cat(process, "/ns/net"));
    std::string group = ns ? group_of(process) : std::string();
    if (!group.empty()) out[ns->inode].insert(std::move(group));
  }
  return out;
}

CgroupPrograms::CgroupPrograms(std::vector<netlink::bpf::CgroupHook> hooks)
    : hooks_(std::move(hooks)), root_(mount_point()) {}

const std::vector<CgroupProgram>& CgroupPrograms::attached_to(const std::string& group) {
  const auto [found, is_new] = known_.try_emplace(group);
  if (!is_new) return found->second;
  const netlink::Fd folder(::open(cat(root_, group).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (const auto hook : hooks_) {
    if (!folder) break;
    for (const std::uint32_t id : netlink::bpf::cgroup_programs(folder, hook)) {
      CgroupProgram one{group, id, netlink::bpf::program_name(id)};
      auto& all = found->second;
      if (std::ranges::find(all, one) == all.end()) all.push_back(std::move(one));
    }
  }
  return found->second;
}

std::vector<CgroupProgram> CgroupPrograms::of(const std::string& group) {
  std::vector<CgroupProgram> out;
  for (std::string at = root_.empty() ? "" : group; !at.empty(); at = above(at)) {
    const auto& here = attached_to(at);
    out.insert(out.end(), here.begin(), here.end());
  }
  return out;
}

}  // namespace tool::probe
