#include "plugins/tap/conf.h"

#include <algorithm>

#include "plugins/common/link/ipam_keys.h"
#include "plugins/common/link/link_keys.h"
#include "plugins/tap/facts.h"

namespace tap {

namespace {

using cni::cat;
using cni::Reader;
using MacKeys = plugins::MacKeys<Conf>;

// MAX_MTU - ETH_HLEN, in tun_net_initialize() of drivers/net/tun.c.
constexpr int kMaxMtu = 65535 - 14;
constexpr std::int64_t kMaxId = 0xffff'fffe;  // -1 is no uid and no gid: chown(2)

constexpr const char* kContext = "an SELinux context, for example system_u:system_r:container_t:s0";

// user:role:type, or user:role:type:range.
bool is_context(const std::string& text) {
  const bool is_printable =
      std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 127; });
  return is_printable && std::ranges::count(text, ':') >= 2 && text.front() != ':' &&
         text.back() != ':' && text.find("::") == std::string::npos;
}

void read_context(const Reader& place, Conf& conf) {
  conf.selinux_context = place.as_string();
  if (!conf.selinux_context.empty() && !is_context(conf.selinux_context)) {
    place.fail(cat("expected ", kContext));
  }
}

void read_bridge(const Reader& place, Conf& conf) {
  conf.bridge = place.as_string();
  if (!conf.bridge.empty() && !plugins::is_link_name(conf.bridge)) {
    place.fail(cat("expected ", plugins::kLinkName));
  }
}

constexpr auto kKeys = cni::keys(
    cni::key<&Conf::mtu>({.name = "mtu",
                          .description = "MTU in bytes of the tap; 0 is the kernel's default",
                          .default_text = "0",
                          .minimum = 68,
                          .maximum = kMaxMtu,
                          .expected = "0 (the kernel's default) or 68 to 65521",
                          .or_zero = true}),
    plugins::mac_key<Conf>("MAC address of the tap. Default: random. `CNI_ARGS`, `args` and "
                           "`runtimeConfig` override it"),
    cni::key<&Conf::owner>({.name = "owner",
                            .description = "uid that may attach to the tap without CAP_NET_ADMIN; "
                                           "with `group` only processes that match both. Default: "
                                           "any uid",
                            .maximum = kMaxId}),
    cni::key<&Conf::group>({.name = "group",
                            .description = "gid that may attach to the tap without CAP_NET_ADMIN. "
                                           "Default: any gid",
                            .maximum = kMaxId}),
    cni::key<&Conf::multi_queue>(
        {.name = "multiQueue",
         .description = "creates a tap with up to 256 queues, to which a program attaches with "
                        "IFF_MULTI_QUEUE (QEMU: `queues=N`)"}),
    cni::custom<read_context>(
        {.name = "selinuxContext",
         .description = "SELinux context of the tap's sockets. Needs a node with SELinux",
         .pattern = "^([!-9;-~]+:){2,}[!-9;-~]+$",
         .fits = is_context,
         .expected = kContext,
         .or_empty = true}),
    cni::custom<read_bridge>({.name = "bridge",
                              .description = "name of a bridge in the pod's network namespace, of "
                                             "which the tap becomes a port",
                              .pattern = plugins::kLinkNamePattern,
                              .fits = plugins::is_link_name,
                              .expected = plugins::kLinkName,
                              .or_empty = true}),
    plugins::ipam_key<Conf>(), plugins::dns_key<Conf>(plugins::kDnsOfConfig),
    plugins::dns_from_ipam_key<Conf>(), plugins::ignore_default_route_key<Conf>(),
    cni::part<MacKeys::kArgs>({.name = "args", .open = true}),
    cni::part<MacKeys::kRuntime>({.name = "runtimeConfig", .open = true}));  // overrides args

}  // namespace

constinit const cni::Manual kManual{
    .purpose = "creates a tap device in the pod, to which a virtual machine attaches",
    .keys = kKeys,
    .args = plugins::kMacArgs,
    .facts = kFacts};

Conf Conf::parse(const cni::Request& request) {
  const Reader root = request.reader();
  Conf conf;
  conf.mac = plugins::mac_from_args(request.args);
  cni::read_keys(root, kKeys, conf);
  plugins::refuse_without_ipam(root, conf);
  return conf;
}

}  // namespace tap
