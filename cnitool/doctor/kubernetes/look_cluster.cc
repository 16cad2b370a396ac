#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cnitool/doctor/kubernetes/look.h"
#include "cnitool/json_at.h"
#include "cnitool/pool.h"
#include "libcni/common/dir.h"
#include "libcni/common/split.h"
#include "libcni/config/json.h"
#include "netlink/route/address.h"
#include "netlink/route/link.h"
#include "netlink/route/socket.h"
#include "netlink/types/error.h"
#include "netlink/types/fd.h"

namespace tool::doctor::kubernetes {

namespace {

using netlink::Cidr;
using netlink::Ip;
using nlohmann::json;

std::string read_or_empty(const std::string& path) {
  try {
    return netlink::read_regular_file(path).value_or("");
  } catch (const netlink::Error&) {  // of root alone
    return "";
  }
}

// Lists and single configs, in alphabetical order, as containerd and CRI-O take them.
std::vector<std::string> conf_files_in(const std::string& dir) {
  std::vector<std::string> out;
  for (const std::string& name : cni::names_in(dir)) {
    const auto dot = name.rfind('.');
    const std::string suffix = dot == name.npos ? "" : name.substr(dot);
    if (suffix == ".conf" || suffix == ".conflist" || suffix == ".json") out.push_back(name);
  }
  return out;
}

std::string label_of(const std::string& path) {
  constexpr std::size_t kMax = 256;
  char text[kMax];
  const ssize_t size = ::getxattr(path.c_str(), "security.selinux", text, sizeof text);
  return size <= 0 ? "" : std::string(text, ::strnlen(text, static_cast<std::size_t>(size)));
}

PluginDir dir_of_plugins(const std::string& path, bool enforces) {
  PluginDir out{.path = path};
  struct statvfs about {};
  out.no_exec = ::statvfs(path.c_str(), &about) == 0 && (about.f_flag & ST_NOEXEC) != 0;
  if (!enforces) return out;
  out.labels[path] = label_of(path);
  for (const std::string& name : cni::names_in(path)) {
    const std::string file = cat(path, "/", name);
    out.labels[file] = label_of(file);
  }
  return out;
}

// "kubernetes-cni" of /opt/cni/bin/bridge, by the lists of dpkg.
std::map<std::string, std::string> packages_of(const std::vector<PluginFile>& programs) {
  constexpr const char* kLists = "/var/lib/dpkg/info";
  std::map<std::string, std::string> out;
  const bool others =
      std::ranges::any_of(programs, [](const PluginFile& one) { return one.patchbay.empty(); });
  for (const char* const name : {"kubernetes-cni", "containernetworking-plugins"}) {
    const std::string text = others ? read_or_empty(cat(kLists, "/", name, ".list")) : "";
    for (const auto line : cni::split(text, "\n")) out.emplace(line, name);
  }
  return out;
}

void add_services(Cluster& cluster, std::string_view text, const std::string& source) {
  for (const auto one : cni::split(text, ",")) {
    if (const auto range = Cidr::parse(one)) cluster.services.push_back({range->network(), source});
  }
}

// The list below "clusterDNS:" in the config of the kubelet, an address in each line.
void add_cluster_dns(Cluster& cluster) {
  const Process* const kubelet = cluster.process("kubelet");
  const std::string given = kubelet == nullptr ? "" : kubelet->option("config");
  const std::string file = given.empty() ? "/var/lib/kubelet/config.yaml" : given;
  const std::string text = read_or_empty(file);
  bool is_below = false;
  for (const auto line : cni::split(text, "\n")) {
    if (line.starts_with("clusterDNS:")) {
      is_below = true;
    } else if (const auto words = cni::split(line, " \t\"'-");
               is_below && line.find('-') == 0 && !words.empty()) {
      const auto ip = Ip::parse(words[0]);
      if (ip) cluster.services.push_back({{*ip, ip->bits()}, cat("clusterDNS in ", file)});
    } else {
      is_below = false;
    }
  }
}

void look_at_services(Cluster& cluster, const Node& node) {
  for (const auto& [process, option] : {std::pair("kube-apiserver", "service-cluster-ip-range"),
                                        {"kube-controller", "service-cluster-ip-range"},
                                        {"k3s-server", "service-cidr"},
                                        {"rke2", "service-cidr"}}) {
    const Process* const found = cluster.process(process);
    if (found == nullptr) continue;
    add_services(cluster, found->option(option), cat("--", option, " of ", process));
    if (!cluster.services.empty()) return;
  }
  add_cluster_dns(cluster);
  const netlink::Link* const ipvs = node.link("kube-ipvs0");
  for (const auto& one : node.addresses) {
    if (ipvs == nullptr || one.link != ipvs->index) continue;
    cluster.services.push_back({one.cidr, "link 'kube-ipvs0'"});
  }
}

void look_at_subnet_env(Cluster& cluster, const Node& node) {
  for (const cni::NetworkList& list : node.networks.lists) {
    const json* const conf = plugin_with(cni::Fact::kDelegates, list);
    if (conf != nullptr) cluster.subnet_file = text_at(*conf, "subnetFile", cni::kSubnetEnv);
  }
  struct stat about {};
  if (::stat(cluster.subnet_file.c_str(), &about) == 0) cluster.subnet_env_written = about.st_mtime;
  try {
    cluster.subnet_env = cni::SubnetEnv::read(cluster.subnet_file);
  } catch (const cni::Error& e) {
    cluster.subnet_env_failure = cat(e.what(), "; ", e.details());
  } catch (const netlink::Error& e) {
    cluster.subnet_env_failure = e.what();
  }
}

}  // namespace

const Process* Cluster::process(const std::string& name) const {
  return find_by(processes, &Process::name, name);
}

void look_at_runtime(Cluster& cluster) {
  constexpr const char* kNames[] = {"flanneld",       "NetworkManager",  "kube-proxy",
                                    "kube-apiserver", "kube-controller", "systemd-udevd"};
  cluster.processes = processes([&](const std::string& name, const std::string&) {
    return is_of_runtime(name) || std::ranges::find(kNames, name) != std::end(kNames);
  });
  const auto runtimes = runtimes_of(cluster.processes);
  if (!runtimes.empty() && runtimes[0].name != "podman") cluster.runtime = runtimes[0];
}

void look_at_cluster(Cluster& cluster, const Node& node) {
  cluster.conf_files = conf_files_in(node.networks.dir);
  const bool enforces = read_or_empty("/sys/fs/selinux/enforce").starts_with('1');
  for (const std::string& dir : node.plugin_path) {
    if (cni::Dir::exists(dir)) cluster.plugin_dirs.push_back(dir_of_plugins(dir, enforces));
  }
  cluster.packages = packages_of(node.programs);
  look_at_subnet_env(cluster, node);
  look_at_services(cluster, node);
  cluster.unmanaged = unmanaged_links();
  cluster.pinned = pinned_links();
  cluster.lost_kinds = lost_kinds_of(node.networks);
}

}  // namespace tool::doctor::kubernetes
