#include <algorithm>
#include <cerrno>

#include "libcni/common/error.h"
#include "libcni/plugin/ipam.h"
#include "libcni/plugin/plugin.h"
#include "plugins/common/link/ipam_keys.h"
#include "plugins/common/link/master.h"
#include "plugins/common/link/pod_link.h"
#include "plugins/vlan/conf.h"

namespace vlan {

namespace {

using cni::cat;
using cni::Code;
using netlink::Link;
using netlink::Vlan;
using plugins::Namespaces;

constexpr char kKind[] = "vlan";

plugins::CheckWords words() {
  return {.kind = kKind,
          .required = "vlan: Required prevResult missing",
          .missing = "vlan: Container Interface name in prevResult: ",
          .mac = "vlan: Interface"};
}

// vlan_dev_open() in net/8021q/vlan_dev.c: a VLAN can be set up only then.
void require_up(const Link& master, const cni::Error& refusal) {
  if (master.up) return;
  throw cni::Error(
      refusal.code(), refusal.what(),
      cat("master '", master.name, "' is down: set it up: ip link set ", master.name, " up"));
}

Link create(Namespaces& sides, const netlink::NewLink& spec, const Conf& conf, cni::Undo& undo) {
  try {
    return plugins::create_pod_link(sides, spec, undo);
  } catch (const netlink::Error& e) {
    if (e.error() != EEXIST) throw;
    throw cni::error_of(e, cat("master '", conf.master, "' has a link for VLAN ", conf.vlan_id,
                               " already: on the node, or in a pod"));
  }
}

// Drops mappings to priority 0: they are the kernel's default, which it does not show.
Vlan::Priorities shown(Vlan::Priorities map) {
  std::erase_if(map, [](const auto& one) { return one.second == 0; });
  std::ranges::sort(map);
  return map;
}

void require_same(const Link& link, const Vlan& wanted) {
  const auto* const seen = std::get_if<Vlan>(&link.data);
  if (seen == nullptr) return;
  const auto differs = [&](const std::string& what) {
    return cni::Error(Code::kInternal, cat("Interface ", link.name, " ", what));
  };
  if (seen->id != wanted.id) {
    throw cni::Error(Code::kInternal,  // word for word, with the wrong one
                     cat("Error: Tuning link ", link.name, " configured promisc is ", wanted.id,
                         ", current value is ", seen->id),
                     cat("vlanId: the interface has VLAN ID ", seen->id));
  }
  if (seen->protocol != wanted.protocol) throw differs("has another protocol than the config");
  if (shown(seen->egress) != shown(wanted.egress)) throw differs("has another egressQosMap");
  if (shown(seen->ingress) != shown(wanted.ingress)) throw differs("has another ingressQosMap");
}

// Creates the VLAN of the master in the pod, and gives it addresses.
cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = Conf::parse(request);  // all of the input before any change
  if (!conf.ipam_type.empty()) {
    cni::during("failed to execute IPAM delegate",
                [&] { cni::find_ipam(request, conf.ipam_type); });
  }
  Namespaces sides(request);
  const Link master =
      plugins::find_master(conf.link_in_container ? sides.pod : sides.host(), conf.master);
  plugins::require_mtu(conf.mtu, master);
  require_up(master,
             {Code::kInternal, cat("failed to set \"", request.ifname, "\" UP: network is down")});
  netlink::NewLink spec{
      .kind = kKind, .name = {}, .mtu = static_cast<unsigned>(conf.mtu), .data = conf.data()};
  plugins::set_parent(sides, spec, master, conf.link_in_container);
  const Link link = create(sides, spec, conf, undo);
  // Others on the segment may have the address.
  auto result = plugins::attach_pod_link(
      {sides, link}, conf.ipam_type,
      {.enable_dad = true, .ignore_default_route = conf.ignore_default_route}, undo);
  result.dns = plugins::dns_of(request.reader(), conf, std::move(result.dns));
  return result;
}

void check(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  Namespaces sides(request);
  const Link master =
      plugins::lookup_master(conf.link_in_container ? sides.pod : sides.host(), conf.master);
  plugins::require_mtu(conf.mtu, master);
  const Link link = plugins::check_pod_link(sides, conf.ipam_type, words());
  plugins::require_parent(sides, link, master, conf.link_in_container);
  if (conf.mtu != 0 && link.mtu != conf.mtu) {
    throw cni::Error(Code::kInternal, cat("Error: Tuning configured MTU of ", link.name, " is ",
                                          conf.mtu, ", current value is ", link.mtu));
  }
  require_same(link, conf.data());
}

// Checks all that needs no master.
Conf parse_alone(const cni::Request& request) {
  Conf conf = Conf::parse(request);
  plugins::require_possible_mtu(request, conf.mtu);
  return conf;
}

void status(const cni::Request& request) {
  const Conf conf = parse_alone(request);
  if (!conf.link_in_container) {
    require_up(plugins::require_usable_master(conf.master, conf.mtu),
               {Code::kPluginUnavailable, cat("master '", conf.master, "' is down")});
  }
  plugins::require_pod_link_support(request, kKind, conf.ipam_type);
}

}  // namespace

extern constinit const cni::Plugin kPlugin = plugins::pod_link_plugin<kKind, check, parse_alone>(
    {.name = "vlan", .verbs = {.add = add, .status = status}, .manual = &kManual});

}  // namespace vlan
