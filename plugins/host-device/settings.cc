#include "plugins/host-device/settings.h"

#include <algorithm>
#include <utility>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "netlink/bpf/attached.h"
#include "netlink/sysctl.h"
#include "plugins/host-device/move_home.h"

namespace host_device {

namespace {

using cni::cat;
using netlink::Link;
using netlink::LinkChange;
using netlink::LinkSettings;
using netlink::RouteSocket;

bool is_in(const std::vector<std::string>& list, const std::string& one) {
  return std::ranges::find(list, one) != list.end();
}

void detach_programs(RouteSocket& host, const Link& link, const Device& device) {
  const LinkSettings now = netlink::settings_of(host, link);
  netlink::bpf::detach_tcx(link.index, device.programs);
  if (now.xdp == LinkSettings::Xdp{}) return;
  netlink::bpf::detach_xdp_links(link.index, device.programs);
  host.send(netlink::detach_xdp(link, netlink::settings_of(host, link).xdp, device.programs));
}

void remove_altnames(RouteSocket& host, const Link& link, const LinkSettings& wanted) {
  std::vector<netlink::RouteRequest> requests;
  for (const std::string& name : netlink::settings_of(host, link).altnames) {
    if (!is_in(wanted.altnames, name)) requests.push_back(netlink::remove_altname(link, name));
  }
  host.send(std::move(requests));
}

void add_altnames(RouteSocket& host, const Link& link, const LinkSettings& wanted) {
  const auto now = netlink::settings_of(host, link).altnames;
  for (const std::string& name : wanted.altnames) {
    if (is_in(now, name)) continue;
    // A link that was made meanwhile has it.
    if (const auto refused = host.attempt(netlink::add_altname(link, name))) {
      cni::note(refused->what());
    }
  }
}

LinkChange difference(const Link& link, const Device& device) {
  LinkChange out;
  if (link.name != device.name) out.name = device.name;
  if (link.alias != device.alias) out.alias = device.alias;
  if (link.mac != device.mac) out.mac = device.mac;
  if (link.mtu != device.mtu) out.mtu = device.mtu;
  if (link.promiscuous != device.promiscuous) out.promiscuous = device.promiscuous;
  return out;
}

void enable_ipv6(const Link& link, const Device& device) {
  if (!link.ipv6 || link.ipv6->disable_ipv6 == 0) return;
  for (const auto& address : device.addresses) {
    if (address.cidr.ip.is_v4()) continue;
    return netlink::write_sysctl(cat("net/ipv6/conf/", device.name, "/disable_ipv6"), "0");
  }
}

// The link is down then if its name or MAC address changes: some drivers refuse it of others.
void change(RouteSocket& host, Link& link, const Device& device) {
  const LinkChange change = difference(link, device);
  std::vector<netlink::RouteRequest> requests;
  if (link.up && (change.name || change.mac)) {
    requests.push_back(netlink::set_link(link, {.up = false}));
    link.up = false;
  }
  if (change.name || change.alias || change.mac || change.mtu || change.promiscuous) {
    requests.push_back(netlink::set_link(link, change));
  }
  if (device.settings) {
    const LinkSettings now = netlink::settings_of(host, link);
    for (auto& one : netlink::change_settings(link, now, *device.settings)) {
      requests.push_back(std::move(one));
    }
  }
  host.send(std::move(requests));
}

}  // namespace

std::vector<std::uint32_t> programs_of(const Link& link, const LinkSettings& settings) {
  auto out = netlink::bpf::tcx_programs(link.index);
  for (const auto one : {settings.xdp.driver, settings.xdp.generic, settings.xdp.hardware}) {
    if (one != 0) out.push_back(one);
  }
  return out;
}

void restore(RouteSocket& host, Link link, const Device& device) {
  if (link.name != device.name) require_free_name(host, device.name, link.index);
  // Older state files do not say which stacked links the node itself has made.
  if (device.stacked) remove_stacked(link, *device.stacked);
  if (device.settings) {
    detach_programs(host, link, device);
    remove_altnames(host, link, *device.settings);
  }
  change(host, link, device);
  if (device.settings) add_altnames(host, link, *device.settings);
  enable_ipv6(link, device);
  std::vector<netlink::RouteRequest> requests;
  for (const auto& address : device.addresses) {
    requests.push_back(netlink::add_again(link, address));
  }
  if (link.up != device.up) requests.push_back(netlink::set_link(link, {.up = device.up}));
  host.send(std::move(requests));
}

}  // namespace host_device
