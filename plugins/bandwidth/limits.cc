#include "plugins/bandwidth/limits.h"

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "libcni/plugin/privileges.h"
#include "plugins/bandwidth/edt.h"
#include "plugins/bandwidth/ifb.h"
#include "plugins/bandwidth/queue.h"
#include "plugins/common/link/host_veth.h"

namespace bandwidth {

namespace {

using cni::cat;
using netlink::Link;
using netlink::NetNs;
using netlink::RouteSocket;

Plan plan_for(const Context& context, Direction direction, const Link& link) {
  return plan_for(context.conf, direction, link.mtu, context.ticks);
}

edt::Limit edt_limit(const Context& context) {
  const Shape shape = plan_for(context, Direction::kEgress, context.inside).shape;
  return {.rate = shape.rate, .burst = shape.burst, .horizon = shape.horizon()};
}

// The kernel is asked only once for a queue that it lacks.
void limit(Context& context, RouteSocket& socket, const Link& link, const Plan& plan) {
  if (!put(socket, link, plan)) context.conf.queue = Queue::kFifo;
}

void remove_device(Context& context) {
  const auto ifb = find_ifb(context.sides.host(), context.sides.request);
  if (!ifb) return;
  if (context.outside) remove_redirect(context.sides.host(), *context.outside, *ifb);
  context.sides.host().send(netlink::remove_link(*ifb));
}

// Limits the device before traffic is redirected to it, so that nothing passes without the limit.
void limit_in_device(Context& context, cni::Result& result) {
  const Link ifb = ensure_ifb(context.sides.host(), context.sides.request, context.outside->mtu);
  limit(context, context.sides.host(), ifb,
        plan_for(context, Direction::kEgress, *context.outside));
  redirect(context.sides.host(), *context.outside, ifb);
  auto& all = result.interfaces;
  std::erase_if(all, [&](const cni::Interface& one) {  // of an ADD before
    return one.name == ifb.name && one.sandbox.empty();
  });
  all.push_back({.name = ifb.name, .mac = ifb.mac.str()});
}

// The parts of an attachment that still exist.
struct Remains {
  std::optional<RouteSocket> pod;
  std::optional<Link> inside, outside, ifb;
};

// The other end of the host veth, which the pod may have renamed; CNI_IFNAME where there is none.
void look_into_pod(RouteSocket& host, const cni::Request& request, Remains& out) {
  const auto ns = NetNs::find(request.netns);
  if (!ns) return;
  if (out.outside && out.outside->peer_nsid != host.nsid(*ns)) return;  // the pod moved its end
  out.pod.emplace(*ns);
  out.inside = out.outside ? out.pod->find(out.outside->peer_index) : out.pod->find(request.ifname);
  if (out.inside && plugins::is_of_another(host, request, *ns, *out.inside)) out.inside.reset();
}

cni::Error lacking(const std::string& what) {
  return {cni::Code::kPluginUnavailable, cni::cat("limits of this config cannot be set: ", what)};
}

void make_all(RouteSocket& socket, const Conf& conf) {
  Conf trial = conf;
  trial.ingress = Limit{8'000'000, 80'000};
  const Link lo = socket.get("lo");
  put(socket, lo, plan_for(trial, Direction::kIngress, lo.mtu, netlink::tc::Ticks{}));
  if (conf.egress_mode != EgressMode::kIfb) return;
  socket.send(netlink::add(netlink::NewLink{.kind = "ifb", .name = "ifb0", .up = true}));
  redirect(socket, lo, socket.get("ifb0"));
}

}  // namespace

// All in the reference plugin's words.
static std::string no_peer(const std::string& ifname, const std::string& why) {
  return cat("container interface ", ifname, " has no veth peer: ", why);
}

static bool needs_host(const Conf& conf) {
  return conf.ingress || (conf.egress && conf.egress_mode == EgressMode::kIfb);
}

// A host veth that the limits need is missing.
[[noreturn]] static void refuse_missing(plugins::Namespaces& sides, const Link& inside,
                                        const cni::Result& result) {
  const auto refusal = [](const std::string& what, const std::string& details = {}) {
    return cni::Error(cni::Code::kInternal, what, details);
  };
  if (inside.kind != "veth") {
    if (result.interfaces.empty()) throw refusal("no interfaces provided");
    throw refusal(
        no_peer(inside.name, cat("interface \"", inside.name, "\" was not a veth interface")),
        "without a host veth use \"egressMode\" \"pod\" or \"edt\", and no ingressRate");
  }
  const auto outside = plugins::host_veth_of(sides, inside);
  if (!outside)
    throw refusal(cat("veth peer with index ", inside.peer_index, " is not in host ns"));
  throw refusal("no veth peer of container interface found in host ns",
                cat("prevResult names another host veth of the pod than '", outside->name,
                    "', to which the interface leads"));
}

static void refuse(const std::optional<std::string>& flaw) {
  if (!flaw) return;
  for (const std::string_view sentence : {"Failed to find qdisc", "Rate doesn't match",
                                          "Limit doesn't match", "Buffer doesn't match"}) {
    if (!flaw->starts_with(cat(sentence, ": "))) continue;
    throw cni::Error(cni::Code::kInternal, std::string(sentence),
                     flaw->substr(sentence.size() + 2));
  }
  throw cni::Error(cni::Code::kInternal, cat("check limits: ", *flaw));
}

Context context_for(const cni::Request& request, const Conf& conf, const cni::Result& result) {
  plugins::Namespaces sides(request);
  const std::string& name = request.ifname;
  const Link inside = plugins::require_interface(
      sides, no_peer(name, cat("could not look up \"", name, "\": Link not found")));
  auto outside = plugins::chained_host_veth(sides, result, inside);
  if (needs_host(conf) && !outside) refuse_missing(sides, inside, result);
  return {conf, std::move(sides), inside, std::move(outside), netlink::tc::Ticks{}};
}

void name_host_veth(const Context& context, cni::Result& result) {
  if (!needs_host(context.conf)) return;
  const bool is_named =
      !result.interfaces.empty() && plugins::names_host_link(result, context.outside->name);
  if (is_named) return;
  result.interfaces.push_back({.name = context.outside->name, .mac = context.outside->mac.str()});
}

void set_limits(Context& context, cni::Result& result) {
  const cni::Phase phase("limits");
  const Conf& conf = context.conf;
  if (conf.ingress) {
    limit(context, context.sides.host(), *context.outside,
          plan_for(context, Direction::kIngress, *context.outside));
  } else if (context.outside) {
    remove_queue(context.sides.host(), *context.outside);
  }
  const std::optional<EgressMode> mode =
      conf.egress ? std::optional(conf.egress_mode) : std::nullopt;
  if (mode == EgressMode::kIfb) limit_in_device(context, result);
  if (mode != EgressMode::kEdt) edt::remove(context.sides.pod, context.inside);
  if (mode == EgressMode::kPod) {
    limit(context, context.sides.pod, context.inside,
          plan_for(context, Direction::kEgress, context.inside));
  } else {
    remove_queue(context.sides.pod, context.inside);
  }
  if (mode == EgressMode::kEdt) edt::add(context.sides.pod, context.inside, edt_limit(context));
  if (mode != EgressMode::kIfb) remove_device(context);
}

void check_limits(Context& context) {
  const Conf& conf = context.conf;
  if (conf.ingress) {
    refuse(missing(context.sides.host(), *context.outside,
                   plan_for(context, Direction::kIngress, *context.outside)));
  }
  if (!conf.egress) return;
  if (conf.egress_mode == EgressMode::kPod) {
    refuse(missing(context.sides.pod, context.inside,
                   plan_for(context, Direction::kEgress, context.inside)));
    return;
  }
  if (conf.egress_mode == EgressMode::kEdt) {
    refuse(edt::missing(context.sides.pod, context.inside, edt_limit(context)));
    return;
  }
  const auto ifb = find_ifb(context.sides.host(), context.sides.request);
  if (!ifb) throw cni::Error(cni::Code::kInternal, "get ifb device: Link not found");
  if (!ifb->up) refuse(cat("the ifb device '", ifb->name, "' is down"));
  refuse(
      missing(context.sides.host(), *ifb, plan_for(context, Direction::kEgress, *context.outside)));
  refuse(redirect_missing(context.sides.host(), *context.outside, *ifb));
}

void remove_limits(const cni::Request& request, const DelConf& conf) {
  const cni::Phase phase("limits");
  RouteSocket host;
  Remains all;
  all.ifb = find_ifb(host, request);
  if (!conf.limits && !all.ifb) return;
  using netlink::Capability;
  cni::require_capabilities("remove limits", {Capability::kNetAdmin});
  if (!request.netns.empty()) {
    cni::require_capabilities("remove limits", {Capability::kSysAdmin});
  }
  cni::BestEffort each;
  // A filter that redirects to a removed device drops packets, and the next DEL cannot find it.
  bool is_needed = true;
  each("read the pod's qdiscs", [&] {
    const auto outsides = plugins::removable_host_veths(host, request);
    if (!outsides.empty()) all.outside = outsides.front();
    is_needed = all.outside.has_value();
    look_into_pod(host, request, all);
  });
  if (all.inside) {
    each("remove the limit in the pod", [&] {
      if (conf.edt) edt::remove(*all.pod, *all.inside);
      remove_queue(*all.pod, *all.inside);
    });
  }
  if (all.outside) {
    each("remove the limit on the node", [&] { remove_queue(host, *all.outside); });
  }
  if (all.ifb && all.outside) {
    each("remove the redirection", [&] {
      remove_redirect(host, *all.outside, *all.ifb);
      is_needed = false;
    });
  }
  if (all.ifb && !is_needed)
    each("remove the ifb device", [&] { host.send(netlink::remove_link(*all.ifb)); });
  each.finish();
}

void try_limits(const Conf& conf) try {
  RouteSocket socket(netlink::NetNs::create());
  make_all(socket, conf);
  if (conf.egress_mode != EgressMode::kEdt) return;
  if (const auto why = edt::unusable()) throw lacking(cni::cat("egressMode \"edt\": ", *why));
} catch (const netlink::Error& e) {
  throw lacking(e.what());
} catch (const cni::Error& e) {
  if (e.code() == cni::Code::kPluginUnavailable) throw;
  throw lacking(e.what());
}

}  // namespace bandwidth
