#include <algorithm>
#include <optional>

#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "libcni/plugin/ipam.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/privileges.h"
#include "libcni/plugin/request.h"
#include "netlink/nf/socket.h"
#include "plugins/bridge/check.h"
#include "plugins/bridge/conf.h"
#include "plugins/bridge/link.h"
#include "plugins/bridge/macspoof.h"
#include "plugins/bridge/port.h"
#include "plugins/bridge/repair.h"
#include "plugins/common/firewall/ip_masq.h"
#include "plugins/common/link/addresses.h"
#include "plugins/common/link/interface.h"
#include "plugins/common/link/owned_links.h"

namespace bridge {

namespace {

using cni::Result;
using netlink::Capability;
using netlink::Link;
using netlink::NetNs;
using netlink::RouteSocket;

constexpr std::size_t kInside = 2;  // where the pod's interface stands in the result

// Before anything is changed: undoing needs them too.
void require_rights(const cni::Request& request, const Conf& conf) {
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  if (conf.ip_masq) plugins::require_masquerade_rights(request, conf.ip_masq_backend);
}

// Layer 3: addresses, gateway, masquerading. Returns the link that carries the gateway.
Link configure_ip(const Context& context, const Link& bridge, const plugins::PodInterface& inside,
                  Result& result, cni::Undo& undo) {
  const Conf& conf = context.conf;
  auto interfaces = std::move(result.interfaces);
  result = plugins::request_addresses(context.sides.request, conf.ipam_type, kInside, undo);
  result.interfaces = std::move(interfaces);
  plugins::complete_gateways(
      {.first_host = conf.is_gateway, .default_route = conf.is_default_gateway}, result);
  plugins::configure_interface(inside, result,
                               {.enable_dad = conf.enable_dad, .accept_ra = !conf.is_gateway});
  Link device = bridge;
  if (conf.is_gateway) {
    device = ensure_gateway(context, bridge, result, plugins::OtherAddresses::kRefuse);
  }
  if (conf.ip_masq) {
    plugins::masquerade(conf.ip_masq_backend, plugins::masquerade_of(context.sides.request, result),
                        undo);
  }
  return device;
}

// Whether the container interface was removed. The config of ADD may have had other keys than that
// of DEL: the kernel is asked for rules in any case.
bool disconnect(const cni::Request& request, const DelConf& conf, cni::BestEffort& each) {
  plugins::Masquerade masquerade{request.network, request.container_id, request.ifname, {}};
  each("look up the addresses", [&] {  // as long as the interface shows them
    masquerade = plugins::masquerade_to_remove(request);
  });
  bool is_gone = false;
  each("remove the interface", [&] {
    plugins::remove_veth_pair(request);
    is_gone = true;
  });
  std::optional<netlink::nf::NfSocket> nf;
  each("open nfnetlink", [&] { nf = netlink::nf::NfSocket::find(); });
  if (nf) {
    each("remove the masquerading", [&] { plugins::remove_nft_masquerade(*nf, masquerade); });
    each("remove the rules of macspoofchk",  // not before the pod can send no more
         [&] { remove_macspoof(*nf, request.container_id, request.ifname); });
  }
  if (conf.ip_masq) {
    each("remove the masquerading", [&] { plugins::remove_legacy_masquerade(masquerade); });
  }
  return is_gone;
}

// Connects the pod to the bridge by a veth pair, and adds addresses if the config has an IPAM
// plugin.
Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = Conf::parse(request);  // all of the input before any change
  if (!conf.ipam_type.empty()) cni::find_ipam(request, conf.ipam_type);
  plugins::Namespaces sides(request);
  if (conf.ip_masq) plugins::require_masquerade_rights(request, conf.ip_masq_backend);
  const Context context{conf, sides};

  const Link bridge = ensure_bridge(sides.host(), conf);
  const Port port = connect_pod(context, bridge, undo);
  if (conf.mac_spoof_check) {  // before a frame can pass
    undo.add(RemoveMacspoof{request.container_id, request.ifname});
    add_macspoof(request.container_id, request.ifname, port.outside.name, port.inside.mac);
  }
  open_port(context, port, bridge);

  Result result;
  result.interfaces = {plugins::describe(bridge), plugins::describe(port.outside),
                       plugins::describe(port.inside, request.netns)};
  const plugins::PodInterface inside{sides, port.inside};
  Link device = bridge;
  if (!conf.ipam_type.empty()) {
    device = configure_ip(context, bridge, inside, result, undo);
  } else if (!conf.disable_container_interface) {
    sides.pod.send(netlink::set_link(port.inside, {.up = true}));
  }
  if (!conf.disable_container_interface) wait_for_port(sides.host(), port.outside);
  if (!result.ips.empty()) plugins::announce(device, inside, result);

  result.interfaces[0] = plugins::describe(sides.host().get(bridge.name));
  if (device.index != bridge.index) result.interfaces.push_back(plugins::describe(device));
  if (conf.dns) result.dns = *conf.dns;
  return result;
}

// Removes what ADD created, from the config alone: with or without namespace, prevResult and
// bridge; after half an ADD; twice.
void del(const cni::Request& request) {
  const DelConf conf = DelConf::parse(request);
  plugins::require_removal_rights(request, conf.ip_masq);
  cni::BestEffort each;
  std::string ipam_type;
  each("release the addresses", [&] { ipam_type = cni::ipam_type(request); });
  const auto release = [&] {
    each("release the addresses",
         [&] { cni::ipam_forward(request, ipam_type, cni::Command::kDel); });
  };
  const bool over_the_link = ipam_type == "dhcp";  // its DHCPRELEASE
  if (over_the_link) release();
  // Last: whoever gets the addresses next must not meet what belonged to this pod, and not at all
  // as long as the pod has them.
  if (disconnect(request, conf, each) && !over_the_link) release();
  each.finish();
}

// \throws cni::Error naming the first difference to what ADD created.
void check(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  plugins::Namespaces sides(request);
  if (conf.ip_masq || conf.mac_spoof_check) {  // not even reading is free
    cni::require_capabilities(request, {Capability::kNetAdmin});
  }
  cni::ipam_forward(request, conf.ipam_type, cni::Command::kCheck);
  const Result result = request.required_prev_result();
  check_attachment({conf, sides}, result);
}

// Removes everything of this network whose attachment is not in the list, and calls GC of the
// IPAM plugin.
void gc(const cni::Request& request, cni::Collect& collect) {
  const DelConf conf = DelConf::parse(request);
  plugins::require_removal_rights(request, conf.ip_masq);
  cni::BestEffort each;
  bool are_disconnected = false;
  each("remove bridge ports", [&] {
    plugins::collect_links("veth", collect);
    are_disconnected = true;
  });
  if (!collect.only_looks()) each("remove rules of macspoofchk", [] { gc_macspoof(); });
  each("remove masquerading", [&] { plugins::gc_masquerade(request.network, collect); });
  if (are_disconnected) {
    each("collect addresses",
         [&] { cni::ipam_collect(request, cni::ipam_type(request), collect); });
  }
  each.finish();
}

// \throws cni::Error(kPluginUnavailable) naming the part that ADD needs and the node lacks.
void status(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  require_rights(request, conf);
  require_node_support(conf);
  cni::ipam_forward(request, conf.ipam_type, cni::Command::kStatus);
}

void validate(const cni::Request& request) { Conf::parse(request); }

}  // namespace

extern constinit const cni::Plugin kPlugin{.name = "bridge",
                                           .add = add,
                                           .del = del,
                                           .check = check,
                                           .gc = gc,
                                           .status = status,
                                           .validate = validate,
                                           .manual = &kManual,
                                           .repair = repair,
                                           .loading = "failed to load netconf"};

}  // namespace bridge
