#include "cnitool/sightings.h"

#include <sys/stat.h>

#include <map>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "netlink/route/socket.h"

namespace tool {

namespace {

using netlink::NetNs;
using netlink::RouteSocket;

constexpr const char* kNamed = "/run/netns";

bool is_named(const std::string& path) { return path.starts_with(kNamed); }

// One path for each namespace but that of this process; those of /run/netns first.
std::vector<std::string> namespaces() {
  std::vector<std::string> paths;
  for (const std::string& name : cni::names_in(kNamed))
    paths.push_back(cni::cat(kNamed, "/", name));
  for (const std::string& process : cni::names_in("/proc")) {
    if (process.find_first_not_of("0123456789") == std::string::npos) {
      paths.push_back(cni::cat("/proc/", process, "/ns/net"));
    }
  }
  std::set<std::pair<dev_t, ino_t>> known;
  const auto is_new = [&known](const std::string& path) {
    struct stat about {};
    return ::stat(path.c_str(), &about) == 0 && known.emplace(about.st_dev, about.st_ino).second;
  };
  is_new("/proc/self/ns/net");
  std::erase_if(paths, [&](const std::string& path) { return !is_new(path); });
  return paths;
}

void look_into(const NetNs& ns, Sightings& into) {
  RouteSocket pod(ns);
  std::map<int, std::string> names;
  for (const netlink::Link& link : pod.links()) {
    names.emplace(link.index, link.name);
  }
  for (const netlink::LinkAddress& one : pod.addresses()) {
    const auto name = names.find(one.link);
    if (name != names.end()) into.addresses.emplace(one.cidr.ip, name->second);
  }
}

}  // namespace

bool Sightings::has(const netlink::Ip& ip, const std::string& ifname) const {
  const auto at = addresses.lower_bound({ip, ifname});
  return at != addresses.end() && at->first == ip && (ifname.empty() || at->second == ifname);
}

Sightings look_at_namespaces() {
  Sightings out;
  RouteSocket node;
  for (const std::string& path : namespaces()) {
    try {
      const auto ns = NetNs::find(path);
      if (ns && (is_named(path) || node.nsid(*ns))) look_into(*ns, out);
    } catch (const netlink::Error&) {
      continue;  // it ended, or is closed to this process
    }
  }
  return out;
}

}  // namespace tool
