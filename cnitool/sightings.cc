#include "cnitool/sightings.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "netlink/route/socket.h"

namespace tool {

namespace {

namespace fs = std::filesystem;
using netlink::NetNs;
using netlink::RouteSocket;

std::vector<std::string> entries_of(const std::string& dir) {
  std::vector<std::string> out;
  std::error_code ignored;  // a process that ends, or no such directory
  for (fs::directory_iterator it(dir, ignored), end; it != end; it.increment(ignored)) {
    out.push_back(it->path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

constexpr std::string_view kNamed = "/run/netns";

bool is_named(const std::string& path) { return path.starts_with(kNamed); }

// One path for each namespace but that of this process; those of /run/netns first.
std::vector<std::string> namespaces() {
  std::vector<std::string> paths = entries_of(std::string(kNamed));
  for (const std::string& process : entries_of("/proc")) {
    if (process.find_last_not_of("0123456789") == std::string_view("/proc").size()) {
      paths.push_back(process + "/ns/net");
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
