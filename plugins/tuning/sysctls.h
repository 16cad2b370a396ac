#pragma once

#include <string>
#include <vector>

#include "netlink/sysctl.h"
#include "plugins/tuning/conf.h"

/// Sysctls of a pod. Whoever writes the config may be less trusted than the node's operator, so
/// that no key leads out of /proc/sys/net of the pod.
namespace tuning {

/// Why the text is no key below net/; empty where it is one.
std::string complaint_about(const std::string& key);

/// The paths of a key below /proc/sys/net ("ipv4/conf/eth0.100/arp_filter"), with IFNAME replaced:
/// as sysctl(8) reads it, where the first separator decides, and as the reference plugin does,
/// where dots and slashes both separate. One path if these are the same.
std::vector<std::string> paths_of(const std::string& key, const std::string& ifname);

/// The sysctls with their keys as paths below /proc/sys/net, of the namespace that the thread is
/// in. \throws cni::Error for the first that does not exist.
std::vector<Sysctl> resolve(const netlink::NetSysctls& net, const std::vector<Sysctl>& sysctls,
                            const std::string& ifname);

/// Whether the kernel shows for one value what was written as the other: numbers are numbers in
/// whatever notation, lists may be separated by blanks or tabs, and ranges of a list of ports may
/// be joined.
bool same_value(const std::string& one, const std::string& other);

}  // namespace tuning
