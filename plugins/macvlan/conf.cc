#include "plugins/macvlan/conf.h"

#include <algorithm>
#include <iterator>

#include "plugins/common/link/ipam_keys.h"
#include "plugins/common/link/link_keys.h"
#include "plugins/common/link/master.h"
#include "plugins/macvlan/facts.h"

namespace macvlan {

namespace {

using cni::cat;
using cni::Reader;
using netlink::Macvlan;

constexpr std::string_view kModes[] = {"bridge", "private", "vepa", "passthru", "source"};
constexpr Macvlan::Mode kModeOf[] = {Macvlan::Mode::kBridge, Macvlan::Mode::kPrivate,
                                     Macvlan::Mode::kVepa, Macvlan::Mode::kPassthru,
                                     Macvlan::Mode::kSource};
static_assert(std::size(kModes) == std::size(kModeOf));

void read_mode(const Reader& place, Conf& conf) {
  if (const auto mode = plugins::word_from(place, "unknown macvlan mode", kModes)) {
    conf.data.mode = kModeOf[*mode];
  }
}

void read_allowed(const Reader& place, Conf& conf) {
  for (const Reader& element : place.elements()) {
    const auto mac = plugins::mac_from(element);
    if (!mac) element.fail(cat("expected ", cni::kMacForm));
    conf.data.allowed.push_back(*mac);
  }
  // The kernel has a set.
  auto& allowed = conf.data.allowed;
  std::ranges::sort(allowed);
  allowed.erase(std::unique(allowed.begin(), allowed.end()), allowed.end());
}

void read_queue(const Reader& place, Conf& conf) {
  conf.data.broadcast_queue = static_cast<std::uint32_t>(place.as_int(0, UINT32_MAX));
}

constexpr auto kKeys = cni::keys(
    plugins::master_key<Conf>("the link of the default route"),
    plugins::link_in_container_key<Conf>(),
    cni::custom<read_mode>(
        {.name = "mode",
         .description = "whom the interface exchanges frames with: in `bridge` with other "
                        "interfaces of the master directly, in `vepa` by way of the switch, in "
                        "`private` with none of them. `passthru` gives the pod the master as a "
                        "whole. `source` receives only from `allowedMACs`",
         .default_text = "`bridge`",
         .type = cni::Type::kEnum,
         .enumeration = kModes,
         .or_empty = true}),
    cni::custom<read_allowed>(
        {.name = "allowedMACs",
         .description = "MAC addresses of the senders whose frames the interface receives. "
                        "Required in mode `source`, and only allowed there",
         .type = cni::Type::kMac,
         .lists = 1}),
    plugins::mtu_key<Conf>("MTU in bytes of the interface, at most that of the master; 0 is the "
                           "master's"),
    plugins::mac_key<Conf>("MAC address of the interface. Default: random, in mode `passthru` that "
                           "of the master. `CNI_ARGS` and `runtimeConfig` override it"),
    cni::custom<read_queue>(
        {.name = "bcqueuelen",
         .description = "length of the master's queue of broadcast and multicast frames, in "
                        "packets; 0 is the kernel's default of 1000. The kernel uses the largest "
                        "of all interfaces of the master",
         .default_text = "0",
         .type = cni::Type::kInteger,
         .maximum = UINT32_MAX}),
    cni::key<&Conf::enable_dad>(
        {.name = "enabledad",
         .description = "looks for duplicates of the addresses on the master's segment, IPv4 by "
                        "ARP probes and IPv6 by the kernel; ADD waits up to 1 s for each of both, "
                        "and fails where there is one"}),
    plugins::ipam_key<Conf>(), plugins::dns_key<Conf>(plugins::kDnsOfConfig),
    plugins::dns_from_ipam_key<Conf>(), plugins::ignore_default_route_key<Conf>(),
    cni::part<plugins::MacKeys<Conf>::kRuntime>({.name = "runtimeConfig", .open = true}));

constexpr cni::Key kArgs[] = {
    {.name = "MAC",
     .description =
         "MAC address of the container interface. Overrides `mac`; `runtimeConfig` overrides it",
     .type = cni::Type::kMac}};

void refuse_contradictions(const Reader& root, const Conf& conf) {
  const bool source = conf.data.mode == Macvlan::Mode::kSource;
  if (source && conf.data.allowed.empty()) {
    throw cni::Error(cni::Code::kInvalidConfig,
                     "allowedMACs: mode \"source\" receives from nobody without it, expected a "
                     "list of MAC addresses");
  }
  if (!source && !conf.data.allowed.empty()) {
    root["allowedMACs"].fail("only of mode \"source\"");
  }
}

}  // namespace

constinit const cni::Manual kManual{
    .purpose = "connects pods to the network of a link of the node, each with a MAC address",
    .keys = kKeys,
    .args = kArgs,
    .facts = kFacts};

std::string_view name_of(Macvlan::Mode mode) {
  const auto* const found = std::ranges::find(kModeOf, mode);
  return found != std::end(kModeOf) ? kModes[found - std::begin(kModeOf)] : "unknown";
}

Conf Conf::parse(const cni::Request& request) {
  const Reader root = request.reader();
  Conf conf;
  conf.mac = plugins::mac_from_args(request.args);
  cni::read_keys(root, kKeys, conf);
  refuse_contradictions(root, conf);
  plugins::refuse_without_ipam(root, conf);
  return conf;
}

}  // namespace macvlan
