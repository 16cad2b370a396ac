#include <algorithm>
#include <cmath>
#include <set>

#include "cnitool/doctor/checks.h"
#include "cnitool/doctor/facts.h"

// Checks the node around the networks: MTUs, clock, disks.
namespace tool::doctor {

namespace {

using netlink::Family;

std::string percent(double part) { return cat(std::lround(part * 100), " %"); }

}  // namespace

Findings check_mtu(const Node& node) {
  Findings out;
  unsigned least = 0;
  std::string narrow;
  for (const Family family : netlink::kFamilies) {
    for (const std::string& name : uplinks(node, family)) {
      const netlink::Link* const link = node.link(name);
      if (link == nullptr || (least != 0 && link->mtu >= least)) continue;
      least = link->mtu;
      narrow = name;
    }
  }
  if (least == 0) return out;
  for (const BridgeNetwork& one : bridge_networks(node)) {
    const netlink::Link* const bridge = node.link(one.bridge);
    constexpr unsigned kDefault = 1500;
    const unsigned mtu = one.mtu != 0 ? one.mtu : kDefault;
    const bool is_set = mtu <= least;  // for new pods
    const unsigned now = is_set && bridge != nullptr ? bridge->mtu : mtu;
    if (now <= least) continue;
    out.push_back(
        {Level::kWarning,
         cat("bridge '", one.bridge, "' has MTU ", now, ", uplink '", narrow, "' ", least),
         "large packets of pods are lost if a firewall drops ICMP",
         is_set ? cat("restart the pods of network '", one.list->name, "'")
                : cat("in ", one.list->file, " set \"mtu\": ", least, " in the plugin \"bridge\""),
         {one.list->name}});
  }
  return out;
}

// host-local tells reservations of this boot from older ones.
Findings check_clock(const Node& node) {
  Findings out;
  if (!node.sysctl("kernel/random/boot_id")) {
    out.push_back({Level::kWarning, "the boot ID of the system is unreadable",
                   "host-local cannot reclaim the leases of pods from before a reboot",
                   "mount -t proc proc /proc"});
  }
  constexpr std::time_t kYear2024 = 1'704'067'200, kDay = 86'400;
  if (node.now < kYear2024) {
    out.push_back({Level::kWarning, "the system clock is years behind",
                   "certificates are invalid, and ages of files are unknown",
                   "timedatectl set-ntp true"});
  }
  const auto late = static_cast<std::size_t>(
      std::count_if(node.attachments.begin(), node.attachments.end(),
                    [&](const auto& one) { return one.modified > node.now + kDay; }));
  if (late > 0) {
    out.push_back({Level::kWarning, cat("dated in the future: ", counted(late, "attachment")),
                   "the clock was set back: leases of this boot look older than the boot",
                   "timedatectl set-ntp true"});
  }
  return out;
}

// A call gives up after 60 s (cni::kLockDeadline), so that a runtime sees it fail and tries again.
Findings check_locks(const Node& node) {
  Findings out;
  for (const HeldLock& one : node.held_locks) {
    Names holders, pids;
    for (const auto& user : one.holders) {
      holders.push_back(user.str());
      pids.push_back(user.pid);
    }
    const Names networks(one.networks.begin(), one.networks.end());
    const std::string who = networks.empty() ? "networks" : cat("'", joined(networks, "', '"), "'");
    out.push_back(
        {one.is_gc ? Level::kWarning : Level::kError,
         cat("lock '", one.path, "' has not been free for ", kHungSeconds,
             " s: ", holders.empty() ? "its holder is unknown" : cat("held by ", joined(holders))),
         cat("ADD and DEL of ", who, " wait for it and fail; their pods were not looked at"),
         pids.empty() ? "cat /proc/locks"
         : one.is_gc  ? cat("ps -fp ", joined(pids, ","))
                      : cat("kill -9 ", joined(pids, " ")),
         networks});
  }
  return out;
}

// portmap refuses such a port at ADD: the process came later.
Findings check_host_ports(const Node& node) {
  Findings out;
  for (const TakenPort& one : node.taken_ports) {
    out.push_back({Level::kWarning,
                   cat("hostPort ", one.port, " of ", one.pod, ": ", one.holder, " listens on it"),
                   "the pod gets what is sent to the port, and the process nothing; if the pod is "
                   "restarted, ADD fails. Give one of them another port",
                   cat("ss -lnp ", one.filter),
                   {one.network}});
  }
  return out;
}

Findings check_disks(const Node& node) {
  constexpr double kNearlyFull = 0.05;
  Findings out;
  for (const std::string& path : node.no_folders) {
    out.push_back({Level::kError, cat("'", path, "' is not a directory"),
                   "ADD and DEL fail, because plugins and runtimes keep their state there",
                   cat("mv ", path, " ", path, ".old")});
  }
  for (const FileSystem& one : node.file_systems) {
    if (one.read_only) {
      out.push_back({Level::kError, cat("the file system of ", one.path, " is read-only"),
                     "ADD fails, because plugins and runtimes keep their state there",
                     cat("mount -o remount,rw $(findmnt -n -o TARGET -T ", one.path, ")")});
    } else if (const double least = std::min(one.free_bytes, one.free_files); least < kNearlyFull) {
      out.push_back({is_full(one) ? Level::kError : Level::kWarning,
                     cat("the file system of ", one.path, " has ", percent(least), " of its ",
                         one.free_bytes < one.free_files ? "space" : "files", " left"),
                     is_full(one) ? "ADD fails, because plugins and runtimes keep their state there"
                                  : "ADD fails when it is full",
                     cat("du -x -d 2 $(findmnt -n -o TARGET -T ", one.path, ") | sort -n")});
    }
    if (one.in_memory && !one.path.starts_with("/run/")) {
      out.push_back({Level::kNote, cat(one.path, " is in memory"),
                     "it is empty after a reboot, after which no pod exists either"});
    }
  }
  return out;
}

}  // namespace tool::doctor
