#include "plugins/host-device/device.h"

#include <linux/rtnetlink.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "libcni/common/dir.h"
#include "libcni/common/error.h"
#include "plugins/names/drivers.h"

namespace host_device {

namespace {

using cni::cat;
using cni::Code;
using cni::Dir;
using netlink::Link;

constexpr const char* kPci = "/sys/bus/pci/devices/";
constexpr const char* kAuxiliary = "/sys/bus/auxiliary/devices/";

// The path without symbolic links; empty, with errno, where it leads nowhere.
std::string resolved(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  return real ? real.get() : std::string();
}

std::string last_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// Sorts, as the reference plugin does. Empty if the directory does not exist.
std::vector<std::string> names_in(const std::string& path) {
  const auto dir = Dir::open(path);
  auto names = dir ? dir->names() : std::vector<std::string>();
  std::ranges::sort(names);
  return names;
}

[[noreturn]] void fail_to_find(const std::string& why, const std::string& hint = {}) {
  throw cni::Error(Code::kInternal, cat("failed to find host device: ", why), hint);
}

Link link_in(netlink::RouteSocket& host, const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    const auto names = names_in(directory);
    if (names.empty()) continue;
    if (auto link = host.find(names.front())) return *std::move(link);
  }
  fail_to_find(cat("no network device in ", directories.front()),
               "it has another driver, or its link is in a pod");
}

std::vector<std::string> net_directories(const std::string& pci) {
  std::vector<std::string> out{cat(kPci, pci, "/net")};
  if (Dir::exists(out.front())) return out;
  for (const std::string& name : names_in(cat(kPci, pci))) {
    if (name.starts_with("virtio")) out.push_back(cat(kPci, pci, "/", name, "/net"));
  }
  return out;
}

Link link_with_mac(netlink::RouteSocket& host, const netlink::Mac& mac) {
  std::optional<Link> found;
  for (const Link& link : host.links()) {
    if (link.mac != mac || link.loopback) continue;
    // VLANs, bridges and the like often have the MAC address of the hardware below them.
    if (!found || (!found->kind.empty() && link.kind.empty())) found = link;
  }
  if (!found) {
    fail_to_find("failed to find physical interface",
                 cat("hwaddr: no link of the node has the MAC address ", mac.str()));
  }
  return *found;
}

bool has_user_space_driver(const std::string& pci) {
  const std::string device = cat(kPci, pci);
  const std::string driver = resolved(cat(device, "/driver"));
  if (driver.empty()) {
    const int error = errno;
    const bool exists = !resolved(device).empty();
    throw cni::Error(Code::kInternal,
                     cat("error with host device: lstat ", device, exists ? "/driver" : "", ": ",
                         netlink::errno_text(error)),
                     "the PCI device does not exist, or has no driver");
  }
  return names::is_user_space_driver(last_of(driver));
}

bool is_pci_address(std::string_view name) {  // "0000:03:00.1"
  const auto dot = name.rfind('.');
  return dot != std::string_view::npos && dot + 2 == name.size() &&
         std::ranges::count(name, ':') == 2 &&
         name.find_first_not_of("0123456789abcdef:.") == std::string_view::npos;
}

bool has_default_route(netlink::RouteSocket& host, const Link& link) {
  for (const auto family : netlink::kFamilies) {
    for (const netlink::LinkRoute& route : host.routes(family)) {
      const bool is_default = route.dst.is_default() && route.table == RT_TABLE_MAIN;
      if (is_default && route.link == link.index) return true;
    }
  }
  return false;
}

// Why the node needs the link; empty where it does not.
std::string use_of(netlink::RouteSocket& host, const Link& link) {
  if (link.master != 0) {
    const auto master = host.find(link.master);
    return cat("it is a port of '", master ? master->name : cat("#", link.master), "'");
  }
  for (const Link& other : host.links()) {
    if (other.parent_index == link.index && !other.parent_nsid) {
      return cat("'", other.name, "' stands on it");
    }
  }
  return has_default_route(host, link) ? "the default route of the node leads through it" : "";
}

}  // namespace

Selection select(const Conf& conf) {
  conf.require_selector();
  Selection out{.pci = conf.pci, .auxiliary = {}, .dpdk = conf.dpdk};
  if (!conf.device_id.empty()) {
    if (Dir::exists(kPci + conf.device_id)) {
      out.pci = conf.device_id;
    } else if (Dir::exists(kAuxiliary + conf.device_id)) {
      out.pci.clear();  // Multus writes the same name there
      out.auxiliary = conf.device_id;
    } else {
      throw cni::Error(Code::kInternal, cat("runtime config DeviceID ", conf.device_id,
                                            " not found or unsupported"));
    }
  }
  if (!out.pci.empty()) out.dpdk = has_user_space_driver(out.pci);
  return out;
}

Link find_device(netlink::RouteSocket& host, const Conf& conf, const Selection& selection) {
  if (!conf.device.empty()) {
    if (auto link = host.find(conf.device)) return *std::move(link);
    fail_to_find("Link not found", cat("device: \"", conf.device, "\""));
  }
  if (conf.mac) return link_with_mac(host, *conf.mac);
  if (!conf.kernel_path.empty()) {
    const std::string real = resolved(conf.kernel_path);
    if (real.empty()) fail_to_find(cat(conf.kernel_path, ": ", netlink::errno_text(errno)));
    if (!real.starts_with("/sys/devices/")) {
      fail_to_find(cat(conf.kernel_path, " is a link that leads out of /sys/devices"));
    }
    return link_in(host, {cat(real, "/net")});
  }
  if (!selection.pci.empty()) return link_in(host, net_directories(selection.pci));
  return link_in(host, {cat(kAuxiliary, selection.auxiliary, "/net")});
}

void require_movable(netlink::RouteSocket& host, const Conf& conf, const Link& link) {
  if (link.loopback) {
    throw cni::Error(Code::kInvalidConfig,
                     cat("device: '", link.name, "' is the loopback device of the node"));
  }
  if (!conf.device.empty()) return;
  const std::string use = use_of(host, link);
  if (use.empty()) return;
  throw cni::Error(Code::kInternal, cat("move '", link.name, "' into the pod: ", use),
                   cat("to move it all the same, set \"device\": \"", link.name, "\""));
}

std::string pci_address_of(const std::string& link) {
  std::string path = resolved(cat("/sys/class/net/", link, "/device"));
  while (path.size() > 1) {
    if (is_pci_address(last_of(path))) return last_of(path);
    path.resize(path.rfind('/'));
  }
  return {};
}

std::string physical_function_of(const std::string& pci) {
  return last_of(resolved(cat(kPci, pci, "/physfn")));
}

bool selects_hardware(const Conf& conf, const Link& link,
                      const std::vector<std::string>& altnames) {
  // A pod makes links of all kinds, but no hardware.
  if (!link.kind.empty() || link.loopback) return false;
  if (link.device.empty() && !link.permanent_mac) return false;
  if (!conf.device.empty()) {
    return link.alias == conf.device || std::ranges::find(altnames, conf.device) != altnames.end();
  }
  if (conf.mac) return link.permanent_mac == conf.mac;
  if (link.device.empty()) return false;
  const std::string id = conf.device_id.empty() ? conf.pci : conf.device_id;
  const std::string name = last_of(link.device);
  if (!conf.kernel_path.empty()) return last_of(conf.kernel_path) == name;
  return !id.empty() && (name == id || Dir::exists(cat(kPci, id, "/", name)));
}

}  // namespace host_device
