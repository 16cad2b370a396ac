#include "plugins/bandwidth/trial.h"

#include "libcni/common/error.h"
#include "netlink/netns.h"
#include "netlink/route/socket.h"
#include "plugins/bandwidth/edt.h"
#include "plugins/bandwidth/ifb.h"
#include "plugins/bandwidth/queue.h"

namespace bandwidth {

namespace {

using netlink::Link;
using netlink::RouteSocket;

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
