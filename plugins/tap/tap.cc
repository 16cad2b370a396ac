#include <cerrno>

#include "libcni/common/phase.h"
#include "libcni/plugin/ipam.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/privileges.h"
#include "netlink/tun.h"
#include "plugins/common/link/ipam_keys.h"
#include "plugins/common/link/pod_link.h"
#include "plugins/tap/conf.h"

namespace tap {

namespace {

using cni::cat;
using cni::Code;
using netlink::Capability;
using netlink::Link;
using netlink::RouteSocket;
using netlink::TunFile;

constexpr char kKind[] = "tun";  // as netlink shows a tap

[[noreturn]] void refuse(const std::string& what) { throw cni::Error(Code::kInternal, what); }

// The code is that of the failure.
TunFile open_tun(const netlink::NetNs& where, Code code) try {
  return TunFile(where);
} catch (const netlink::Error& e) {
  const bool is_refused = e.error() == EPERM || e.error() == EACCES;
  throw cni::Error(
      code, cat("failed to create tap: ", e.sentence()),
      is_refused ? "the device cgroup or the file mode forbids '/dev/net/tun' to this process"
                 : "load the driver (modprobe tun) and make its device node (mkdir -p /dev/net "
                   "&& mknod /dev/net/tun c 10 200)");
}

void require_selinux(const Conf& conf, Code code) {
  if (conf.selinux_context.empty() || netlink::has_selinux()) return;
  throw cni::Error(code, "failed set socket label: this kernel runs without SELinux",
                   cat("selinuxContext: \"", conf.selinux_context,
                       "\": remove the key, or boot the node with SELinux"));
}

// The index of the pod's bridge; 0 if the config has none.
int bridge_index(RouteSocket& pod, const Conf& conf, const std::string& tap) {
  const std::string& name = conf.bridge;
  if (name.empty()) return 0;
  const auto bridge = pod.find(name);
  if (!bridge) {
    throw cni::Error(
        Code::kInvalidConfig, cat("failed to get bridge ", name, ": Link not found"),
        "bridge: a bridge with this name must be in the pod's network namespace before ADD");
  }
  if (bridge->kind == "bridge") return bridge->index;
  throw cni::Error(
      Code::kInvalidConfig,
      cat("failed to set tap ", tap, " as a port of bridge ", name, ": operation not supported"),
      "bridge: the pod's link of this name is no bridge");
}

Link create_tap(plugins::Namespaces& sides, const Conf& conf, cni::Undo& undo) {
  const cni::Phase phase("link");
  const std::string& name = sides.request.ifname;
  const int bridge = bridge_index(sides.pod, conf, name);
  TunFile tun = open_tun(sides.pod_ns, Code::kInternal);
  plugins::expect_free_name(sides, "failed to create tap");
  cni::during("failed to create tap", [&] {
    tun.create({.name = name,
                .multi_queue = conf.multi_queue,
                .owner = conf.owner,
                .group = conf.group,
                .selinux_context = conf.selinux_context});
  });
  plugins::undo_pod_link(sides, kKind, undo);  // after it: a failure leaves none
  netlink::LinkChange change{.mac = conf.mac};
  if (bridge != 0) change.master = bridge;
  if (conf.mtu != 0) change.mtu = conf.mtu;
  sides.pod.send(netlink::set_link(sides.pod.get(name), change));
  return sides.pod.get(name);
}

// Compares no IFF_NO_PI and IFF_VNET_HDR: the program that attached last has set them
// (tun_set_iff() in drivers/net/tun.c).
void check_tap(const Link& link, const Conf& conf) {
  const std::string name = cat("Interface ", link.name);
  const auto* const tun = std::get_if<netlink::Tun>(&link.data);
  if (tun == nullptr || !tun->tap) refuse(cat(name, " is no tap"));
  if (!tun->persistent) refuse(cat(name, " is not persistent"));
  if (tun->multi_queue != conf.multi_queue) {
    refuse(cat(name, tun->multi_queue ? " has" : " does not have",
               " multiple queues, unlike multiQueue of the config"));
  }
  const auto text = [](const std::optional<std::uint32_t>& id) {
    return id ? std::to_string(*id) : std::string("none");
  };
  if (tun->owner != conf.owner) {
    refuse(cat(name, " has owner ", text(tun->owner), ", the config has ", text(conf.owner)));
  }
  if (tun->group != conf.group) {
    refuse(cat(name, " has group ", text(tun->group), ", the config has ", text(conf.group)));
  }
}

// Creates the tap in the pod, and gives it addresses if the config has an IPAM plugin.
cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = Conf::parse(request);  // all of the input before any change
  if (!conf.ipam_type.empty()) cni::find_ipam(request, conf.ipam_type);
  require_selinux(conf, Code::kInternal);
  plugins::Namespaces sides(request);
  const Link link = create_tap(sides, conf, undo);
  cni::Result result = plugins::attach_pod_link(
      {sides, link}, conf.ipam_type, {.ignore_default_route = conf.ignore_default_route}, undo);
  result.dns = plugins::dns_of(request.reader(), conf, std::move(result.dns));
  return result;
}

void check(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  plugins::Namespaces sides(request);
  const Link link = plugins::check_pod_link(
      sides, conf.ipam_type,
      {.kind = kKind, .missing = "Cannot find container link ", .missing_end = ""});
  check_tap(link, conf);
  // The reference plugin does not set it beside `owner` and `group`.
  plugins::require_mtu_of_ours(link, conf.mtu);
  if (conf.bridge.empty() || link.master == bridge_index(sides.pod, conf, link.name)) {
    return;
  }
  refuse(cat("Interface ", link.name, " is no port of bridge ", conf.bridge));
}

void status(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  cni::require_capabilities(request, {Capability::kNetAdmin, Capability::kSysAdmin});
  open_tun(netlink::NetNs::current(), Code::kPluginUnavailable);
  require_selinux(conf, Code::kPluginUnavailable);
  cni::ipam_forward(request, conf.ipam_type, cni::Command::kStatus);
}

}  // namespace

extern constinit const cni::Plugin kPlugin = plugins::pod_link_plugin<kKind, check, Conf::parse>(
    {.name = "tap", .verbs = {.add = add, .status = status}, .manual = &kManual});

}  // namespace tap
