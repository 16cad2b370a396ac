#include "libcni/plugin/ipam.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/privileges.h"
#include "plugins/bridge/check.h"
#include "plugins/bridge/conf.h"
#include "plugins/bridge/link.h"
#include "plugins/bridge/macspoof.h"
#include "plugins/common/firewall/ip_masq.h"
#include "plugins/common/link/addresses.h"
#include "plugins/common/link/interface.h"
#include "plugins/common/link/pod_link.h"

namespace bridge {

namespace {

using cni::Result;
using netlink::Capability;
using netlink::Link;

constexpr std::size_t kInside = 2;  // where the pod's interface stands in the result

// Layer 3: addresses, gateway, masquerading. Returns the link that carries the gateway.
Link configure_ip(const Context& context, const Link& bridge, const plugins::PodInterface& inside,
                  Result& result, cni::Undo& undo) {
  const Conf& conf = context.conf;
  auto interfaces = std::move(result.interfaces);
  result = plugins::request_addresses(context.sides.request,
                                      {conf.ipam_type, conf.ignore_default_route, kInside}, undo);
  result.interfaces = std::move(interfaces);
  plugins::complete_gateways(
      {.first_host = conf.is_gateway, .default_route = conf.is_default_gateway}, result);
  plugins::configure_interface(inside, result,
                               {.enable_dad = conf.enable_dad,
                                .accept_ra = !conf.is_gateway,
                                .ignore_default_route = conf.ignore_default_route,
                                .announce_when_up = false});
  Link device = bridge;
  if (conf.is_gateway) {
    const auto others =
        conf.force_address ? plugins::OtherAddresses::kReplace : plugins::OtherAddresses::kRefuse;
    device = ensure_gateway(context, bridge, result, others);
  }
  if (conf.ip_masq) {
    plugins::masquerade(conf.ip_masq_backend,
                        plugins::masquerade_of(context.sides.request, result, conf.ip_masq_except),
                        undo);
  }
  return device;
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

void del(const cni::Request& request) {
  plugins::delete_veth_pair(request, [&](netlink::nf::NfSocket& nf) {
    remove_macspoof(nf, request.container_id, request.ifname);
  });
}

// \throws cni::Error naming the first difference to what ADD created.
void check(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  plugins::Namespaces sides(request);
  if (conf.ip_masq || conf.mac_spoof_check) {  // not even reading is free
    cni::require_capabilities(request, {Capability::kNetAdmin});
  }
  cni::ipam_forward(request, conf.ipam_type, cni::Command::kCheck);
  Result result = request.required_prev_result();
  plugins::keep_own(result, request);
  check_attachment({conf, sides}, result);
}

void gc(const cni::Request& request, cni::Collect& collect) {
  plugins::collect_veth_pairs(request, collect, gc_macspoof);
}

// \throws cni::Error(kPluginUnavailable) naming the part that ADD needs and the node lacks.
void status(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  require_node_support(conf);
  if (conf.ip_masq) plugins::require_masquerade_support(request, conf.ip_masq_backend);
  cni::ipam_forward(request, conf.ipam_type, cni::Command::kStatus);
}

void validate(const cni::Request& request) { Conf::parse(request); }

void migrate(const cni::Request& request, cni::Repair& repair) {
  const Conf conf = Conf::parse(request);
  std::optional<plugins::Masquerade> masquerade;
  if (conf.ip_masq && !conf.ipam_type.empty()) {
    plugins::require_masquerade_rights(request, conf.ip_masq_backend);
    masquerade =
        plugins::masquerade_of(request, request.required_prev_result(), conf.ip_masq_except);
  }
  plugins::migrate_veth_pair(request, repair, conf.ip_masq_backend, masquerade);
}

}  // namespace

extern constinit const cni::Plugin kPlugin{
    .name = "bridge",
    .verbs = {add, del, check, gc, status, validate, repair, nullptr, migrate},
    .manual = &kManual};

}  // namespace bridge
