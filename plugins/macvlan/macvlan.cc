#include <algorithm>
#include <cerrno>

#include "libcni/plugin/ipam.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/privileges.h"
#include "plugins/common/link/ipam_keys.h"
#include "plugins/common/link/master.h"
#include "plugins/common/link/pod_link.h"
#include "plugins/macvlan/conf.h"

namespace macvlan {

namespace {

using cni::cat;
using cni::Code;
using netlink::Link;
using netlink::Macvlan;

constexpr char kKind[] = "macvlan";

plugins::CheckWords words() {
  return {.kind = kKind,
          .required = "required prevResult missing",
          .sandbox = "sandbox",
          .missing = "container Interface name in prevResult: ",
          .error = "error",
          .mac = "interface"};
}

// ADD needs it too, because an older kernel ignores attributes that it does not know.
void require_data(const Link& link, const Conf& conf) {
  const auto* const found = std::get_if<Macvlan>(&link.data);
  const Macvlan seen = found ? *found : Macvlan{};
  const auto differs = [&](const char* key) {
    return cni::Error(Code::kInternal,
                      cat("interface ", link.name, " has another ", key, " than the config"));
  };
  if (seen.mode != conf.data.mode) {
    throw cni::Error(Code::kInternal,
                     cat("container macvlan mode ", name_of(seen.mode),
                         " does not match expected value: ", name_of(conf.data.mode)));
  }
  auto allowed = seen.allowed;
  std::ranges::sort(allowed);
  if (allowed != conf.data.allowed) throw differs("list of allowedMACs");
  if (conf.data.broadcast_queue != 0 && seen.broadcast_queue != conf.data.broadcast_queue) {
    throw differs("bcqueuelen");
  }
}

// A refusal that has the cause in the master, which the kernel does not say.
[[noreturn]] void explain(const netlink::Error& e, const Link& master) {
  if (e.error() != EINVAL) throw e;
  throw cni::error_of(e, cat("'", master.name,
                             "' may be no Ethernet device, or have another macvlan: "
                             "passthru is for one interface alone"));
}

Link create(plugins::Namespaces& sides, const Conf& conf, const Link& master, cni::Undo& undo) try {
  netlink::NewLink spec{
      .kind = kKind, .name = {}, .mac = conf.mac, .mtu = conf.mtu, .data = conf.data};
  plugins::set_parent(sides, spec, master, conf.link_in_container);
  const Link link = plugins::create_pod_link(sides, spec, undo);
  require_data(link, conf);
  if (!conf.mac || link.mac == *conf.mac) return link;
  // A passthru interface begins with its master's MAC address, which the kernel gives back to the
  // master when the interface is removed (macvlan_port_destroy() in drivers/net/macvlan.c).
  sides.pod.send(netlink::set_link(link, {.mac = conf.mac}));
  return sides.pod.get(link.name);
} catch (const netlink::Error& e) {
  explain(e, master);
}

void require_rights(const cni::Request& request, const Conf& conf) {
  if (conf.enable_dad) cni::require_capabilities(request, {netlink::Capability::kNetRaw});
}

// Creates the interface in the pod on the master, and gives it addresses where the config has an
// IPAM plugin.
cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = Conf::parse(request);  // all of the input before any change
  if (!conf.ipam_type.empty()) cni::find_ipam(request, conf.ipam_type);
  plugins::Namespaces sides(request);
  require_rights(request, conf);
  const Link master =
      plugins::find_master(conf.link_in_container ? sides.pod : sides.host(), conf.master);
  plugins::require_mtu(conf.mtu, master);
  const Link link = create(sides, conf, master, undo);
  cni::Result result = plugins::attach_pod_link({sides, link}, conf.ipam_type,
                                                {.enable_dad = conf.enable_dad,
                                                 .probe = conf.enable_dad,
                                                 .ignore_default_route = conf.ignore_default_route},
                                                undo);
  result.dns = plugins::dns_of(request.reader(), conf, std::move(result.dns));
  return result;
}

void check(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  plugins::Namespaces sides(request);
  const Link link = plugins::check_pod_link(sides, conf.ipam_type, words());
  require_data(link, conf);
  plugins::require_mtu_of(link, conf.mtu);
  plugins::require_parent(sides, link, conf.master, conf.link_in_container);
}

void status(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  require_rights(request, conf);
  plugins::require_pod_link_support(request, kKind, conf.ipam_type);
  // STATUS does not know links in a pod.
  if (!conf.link_in_container) plugins::require_usable_master(conf.master, conf.mtu);
}

}  // namespace

extern constinit const cni::Plugin kPlugin = plugins::pod_link_plugin<kKind, check, Conf::parse>(
    {.name = "macvlan", .verbs = {.add = add, .status = status}, .manual = &kManual});

}  // namespace macvlan
