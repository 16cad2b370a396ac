#include "libcni/plugin/ipam.h"
#include "libcni/plugin/plugin.h"
#include "plugins/common/link/ipam_keys.h"
#include "plugins/common/link/link_keys.h"
#include "plugins/common/link/pod_link.h"
#include "plugins/dummy/facts.h"

namespace dummy {

namespace {

constexpr char kKind[] = "dummy";

struct Conf {
  std::string ipam_type;
  bool ignore_default_route = false;
  unsigned mtu = 0;                 ///< bytes; 0 is the kernel's default
  std::optional<netlink::Mac> mac;  ///< absent: random

  static Conf parse(const cni::Request& request);
};

constexpr auto kKeys =
    cni::keys(plugins::mtu_key<Conf>("MTU in bytes of the interface; 0 is the kernel's default"),
              plugins::mac_key<Conf>(
                  "MAC address of the interface. Default: random. `runtimeConfig` overrides it"),
              plugins::ipam_key<Conf>(), plugins::ignore_default_route_key<Conf>(),
              cni::part<plugins::MacKeys<Conf>::kRuntime>({.name = "runtimeConfig", .open = true}));

constinit const cni::Manual kManual{
    .purpose = "creates a dummy interface in the pod, which drops what is sent to it",
    .keys = kKeys,
    .facts = kFacts};

Conf Conf::parse(const cni::Request& request) {
  Conf conf;
  cni::read_keys(request.reader(), kKeys, conf);
  if (conf.ipam_type.empty()) {
    throw cni::Error(cni::Code::kInvalidConfig, "dummy interface requires an IPAM configuration",
                     "ipam.type: expected the name of an IPAM plugin");
  }
  return conf;
}

// Creates the interface in the pod, and gives it addresses.
cni::Result add(const cni::Request& request, cni::Undo& undo) {
  const Conf conf = Conf::parse(request);  // all of the input before any change
  cni::find_ipam(request, conf.ipam_type);
  plugins::Namespaces sides(request);
  const auto link = plugins::create_pod_link(
      sides, {.kind = kKind, .name = {}, .mac = conf.mac, .mtu = conf.mtu}, undo);
  return plugins::attach_pod_link({sides, link}, conf.ipam_type,
                                  {.ignore_default_route = conf.ignore_default_route}, undo);
}

void check(const cni::Request& request) {
  const Conf conf = Conf::parse(request);
  plugins::Namespaces sides(request);
  const auto link = plugins::check_pod_link(
      sides, conf.ipam_type, {.kind = kKind, .required = "dummy: Required prevResult missing"});
  plugins::require_mtu_of_ours(link, conf.mtu);  // the reference plugin does not know the key
}

void status(const cni::Request& request) {
  plugins::require_pod_link_support(request, kKind, Conf::parse(request).ipam_type);
}

}  // namespace

extern constinit const cni::Plugin kPlugin = plugins::pod_link_plugin<kKind, check, Conf::parse>(
    {.name = "dummy",
     .verbs = {.add = add, .status = status},
     .manual = &kManual,
     .loading = "failed to parse network config"});

}  // namespace dummy
