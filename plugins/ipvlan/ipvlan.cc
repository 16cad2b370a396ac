#include <cerrno>

#include "libcni/plugin/ipam.h"
#include "libcni/plugin/plugin.h"
#include "plugins/common/link/addresses.h"
#include "plugins/common/link/ipam_keys.h"
#include "plugins/common/link/master.h"
#include "plugins/common/link/owned_links.h"
#include "plugins/common/link/pod_link.h"
#include "plugins/ipvlan/conf.h"

namespace ipvlan {

namespace {

using cni::cat;
using cni::Code;
using cni::Result;
using netlink::Ipvlan;
using netlink::Link;

constexpr char kKind[] = "ipvlan";

// Mode and flag belong to the master: ADD and CHECK see what another interface of it has set.
void require_data(const Link& link, const Conf& conf) {
  const auto* const found = std::get_if<Ipvlan>(&link.data);
  const Ipvlan seen = found ? *found : Ipvlan{};
  if (seen.mode != conf.data.mode) {
    throw cni::Error(Code::kInternal,
                     cat("Container IPVlan mode ", name_of(seen.mode),
                         " does not match expected value: ", name_of(conf.data.mode)));
  }
  if (seen.isolation == conf.data.isolation) return;
  throw cni::Error(Code::kInternal,
                   cat("interface ", link.name, " has other flags than the config"));
}

// A refusal that has the cause in the master, which the kernel does not say.
[[noreturn]] void explain(const netlink::Error& e, const Link& master) {
  if (e.error() != EINVAL && e.error() != EBUSY) throw e;
  throw cni::error_of(e, cat("'", master.name,
                             "' may be no Ethernet device, or have a macvlan, or be a "
                             "port of a bridge or bond"));
}

Link create(plugins::Namespaces& sides, const Conf& conf, const Link& master, cni::Undo& undo) try {
  netlink::NewLink spec{.kind = kKind, .name = {}, .mtu = conf.mtu, .data = conf.data};
  plugins::set_parent(sides, spec, master, conf.link_in_container);
  const Link link = plugins::create_pod_link(sides, spec, undo);
  require_data(link, conf);
  sides.pod.send(netlink::set_link(link, {.alias = plugins::owner_of(sides.request).text}));
  return link;
} catch (const netlink::Error& e) {
  explain(e, master);
}

bool takes_previous_addresses(const Conf& conf, const std::optional<Result>& prev) {
  return conf.ipam_type.empty() && prev && !prev->ips.empty();
}

void require_addresses(const cni::Request& request, const Conf& conf,
                       const std::optional<Result>& prev) {
  if (!conf.ipam_type.empty()) {
    cni::find_ipam(request, conf.ipam_type);
  } else if (!takes_previous_addresses(conf, prev)) {
    throw cni::Error(Code::kInvalidConfig, "no plugin name provided",
                     "ipam.type: expected the name of an IPAM plugin, or a prevResult with "
                     "addresses");
  }
}

// The interface's addresses. Its entry in the result follows those of prevResult.
Result addresses_for(const cni::Request& request, const Conf& conf,
                     const std::optional<Result>& prev, cni::Undo& undo) {
  const std::size_t own = prev ? prev->interfaces.size() : 0;
  if (!takes_previous_addresses(conf, prev)) {
    return plugins::request_addresses(request, {conf.ipam_type, conf.ignore_default_route, own},
                                      undo);
  }
  Result result = *prev;
  if (conf.ignore_default_route) {
    result.routes = plugins::without_default_routes(std::move(result.routes));
  }
  for (cni::Address& address : result.ips) address.interface = own;
  return result;
}

// The result keeps the addresses and routes of earlier plugins in the chain.
Result joined(Result own, const Conf& conf, const std::optional<Result>& prev,
              const cni::Reader& root) {
  if (prev && !takes_previous_addresses(conf, prev)) {
    own.ips.insert(own.ips.begin(), prev->ips.begin(), prev->ips.end());
    own.routes.insert(own.routes.begin(), prev->routes.begin(), prev->routes.end());
  }
  own.dns = plugins::dns_of(root, conf, std::move(own.dns));
  return own;
}

// Creates the interface in the pod on the master, with the addresses of the IPAM plugin or of the
// plugin before.
Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = Conf::parse(request);  // all of the input before any change
  const auto prev = request.prev_result();
  const std::string named = master_of(conf, prev);
  require_addresses(request, conf, prev);
  plugins::Namespaces sides(request);
  const Link master =
      plugins::lookup_master(conf.link_in_container ? sides.pod : sides.host(), named);
  plugins::require_mtu(conf.mtu, master);
  const Link link = create(sides, conf, master, undo);
  Result result = addresses_for(request, conf, prev, undo);
  result.interfaces = prev ? prev->interfaces : std::vector<cni::Interface>{};
  result.interfaces.push_back(plugins::describe(link, request.netns));
  plugins::configure_interface({sides, link}, routable(result, conf.data.mode),
                               {.ignore_default_route = conf.ignore_default_route});
  return joined(std::move(result), conf, prev, request.reader());
}

void check(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  plugins::Namespaces sides(request);
  const Link link =
      plugins::check_pod_link(sides, conf.ipam_type, {.kind = kKind},
                              routable(request.required_prev_result(), conf.data.mode));
  require_data(link, conf);
  plugins::require_mtu_of(link, conf.mtu);
  plugins::require_parent(sides, link, conf.master, conf.link_in_container);
}

void status(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  plugins::require_pod_link_support(request, kKind, conf.ipam_type);
  // STATUS knows neither links in a pod nor a master that an earlier plugin is to make.
  const bool is_unknown = conf.link_in_container || (conf.master.empty() && conf.ipam_type.empty());
  if (!is_unknown) plugins::require_usable_master(conf.master, conf.mtu);
}

}  // namespace

extern constinit const cni::Plugin kPlugin = plugins::pod_link_plugin<kKind, check, Conf::parse>(
    {.name = "ipvlan", .verbs = {.add = add, .status = status}, .manual = &kManual});

}  // namespace ipvlan
