#include <algorithm>

#include "libcni/plugin/ipam.h"
#include "netlink/route/neighbour.h"
#include "plugins/bridge/check.h"
#include "plugins/bridge/macspoof.h"
#include "plugins/common/firewall/ip_masq.h"
#include "plugins/common/link/pod_link.h"

namespace bridge {

namespace {

using cni::Repair;
using cni::Result;
using netlink::Link;
using netlink::Mac;

// The pod goes on with what it has, or not at all: its interface goes with either end.
Port find_port(const Context& context, const Result& result) try {
  const Link inside = find_inside(context, result);
  return {find_outside(context, inside), inside};
} catch (const cni::Error& e) {
  plugins::restart_hint(e);
}

cni::Interface* bridge_in(Result& result, const Conf& conf) {
  const auto it = std::ranges::find_if(result.interfaces, [&](const auto& one) {
    return one.name == conf.bridge && one.sandbox.empty();
  });
  return it == result.interfaces.end() ? nullptr : &*it;
}

// The address that the pods know their gateway under.
std::optional<Mac> mac_of(const cni::Interface* known) {
  const auto mac = known == nullptr ? std::nullopt : Mac::parse(known->mac);
  return mac && !mac->is_zero() && !mac->is_multicast() ? mac : std::nullopt;
}

// A second bridge with its address would cut off the other ports.
void refuse_renamed(netlink::RouteSocket& host, const Conf& conf, const Link& outside,
                    const std::optional<Mac>& mac) {
  if (!mac || host.find(conf.bridge)) return;
  const auto bridge = outside.master == 0 ? std::nullopt : host.find(outside.master);
  if (!bridge || bridge->kind != "bridge" || bridge->mac != *mac) return;
  throw cni::Error(
      cni::Code::kInternal,
      cni::cat("bridge '", conf.bridge, "' was renamed to '", bridge->name, "'"),
      cni::cat("give it its name back: ip link set ", bridge->name, " name ", conf.bridge));
}

// The bridge that is there by now may be another one, made for a new pod: it stays as it is, and
// this pod learns its address.
void restore_bridge(const Context& context, const Port& port, Result& result) {
  const Conf& conf = context.conf;
  cni::Interface* const known = bridge_in(result, conf);
  const auto before = mac_of(known);
  refuse_renamed(context.sides.host(), conf, port.outside, before);
  ensure_bridge(context.sides.host(), conf, before);
  const Link bridge = context.sides.host().get(conf.bridge);
  if (known != nullptr) known->mac = bridge.mac.str();
  if (!carries_gateway(conf) || before == bridge.mac) return;
  std::vector<netlink::RouteRequest> requests;
  for (const cni::Address& address : result.ips) {
    if (!address.gateway) continue;
    requests.push_back(netlink::correct_neighbour(port.inside, *address.gateway, bridge.mac));
  }
  context.sides.pod.send(requests);
}

// An address of the pod that others have given to the node keeps its pod without packets.
void restore_gateway(const Context& context, const Link& bridge, const Result& result) {
  const Link device = ensure_gateway(context, bridge, result, plugins::OtherAddresses::kKeep);
  restore_routes(context, device, result);
  check_gateway(context, result, bridge);
}

// Starts at the bridge, on which the other parts depend.
void repair_links(const Context& context, const Port& port, Result& result, Repair& repair) {
  const Conf& conf = context.conf;
  const cni::Request& request = context.sides.request;
  const bool has_bridge = repair.part([&] { check_bridge(context, result); },
                                      [&] { restore_bridge(context, port, result); });
  if (conf.mac_spoof_check) {  // before a frame can pass
    const std::string& outside = port.outside.name;
    repair.part(
        [&] { check_macspoof(request.container_id, request.ifname, outside); },
        [&] { add_macspoof(request.container_id, request.ifname, outside, port.inside.mac); });
  }
  if (!has_bridge) return;  // only looking: what is missing of the rest follows from that
  const auto bridge = [&] { return context.sides.host().get(conf.bridge); };
  repair.part([&] { check_port(context, result, port, bridge()); },
              [&] { restore_port(context, port, bridge()); });
  if (conf.ipam_type.empty()) return;
  repair.part([&] { check_gateway(context, result, bridge()); },
              [&] { restore_gateway(context, bridge(), result); });
}

}  // namespace

Result repair(const cni::Request& request, Repair& repair) {
  const Conf conf = Conf::parse(request);
  Result result = request.required_prev_result();
  plugins::Namespaces sides(request);
  const Context context{conf, sides};
  Result own = result;
  plugins::keep_own(own, request);
  repair_links(context, find_port(context, own), own, repair);
  result.interfaces = own.interfaces;
  if (!conf.ipam_type.empty() && conf.ip_masq) {
    plugins::repair_masquerade(repair, conf.ip_masq_backend,
                               plugins::masquerade_of(request, own, conf.ip_masq_except));
  }
  cni::ipam_repair(request, conf.ipam_type, repair);
  return result;
}

}  // namespace bridge
