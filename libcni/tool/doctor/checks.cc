#include "libcni/tool/doctor/checks.h"

namespace tool::doctor {

namespace {

constexpr Source kNetworks[] = {Source::kNetworks};
constexpr Source kStatus[] = {Source::kNetworks, Source::kStatus};
constexpr Source kCache[] = {Source::kCache};
constexpr Source kRoutes[] = {Source::kRoutes};
constexpr Source kLinks[] = {Source::kCache, Source::kRoutes};
constexpr Source kRules[] = {Source::kCache, Source::kFirewall};
constexpr Source kFirewall[] = {Source::kFirewall};
constexpr Source kNat[] = {Source::kNetworks, Source::kPools, Source::kFirewall};
constexpr Source kPools[] = {Source::kPools};
constexpr Source kHeld[] = {Source::kPools, Source::kCache};
constexpr Source kSubnets[] = {Source::kPools, Source::kRoutes};

// In the order in which a person would ask.
constexpr Check kChecks[] = {
    {"networks", "every config can be read", check_networks, kNetworks},
    {"network names", "every network has one file", check_names, kNetworks},
    {"permissions", "configs, plugins and state belong to root alone", check_permissions},
    {"plugins", "every plugin is there and answers", check_plugins, kNetworks},
    {"spec versions", "the plugins speak the versions of their networks", check_versions,
     kNetworks},
    {"releases", "the plugins are of one release", check_releases},
    {"status", "the kernel has what the plugins need, and they are ready", check_status, kStatus},
    {"attachments", "every attachment has its pod", check_dead, kCache},
    {"bridges", "the bridges of the pods are up and have their gateway", check_bridges, kLinks},
    {"bridge ports", "the pods are connected to their bridges", check_ports, kLinks},
    {"rules of pods", "masquerading and hostPorts of the pods are there", check_rules, kRules},
    {"reservations", "every reserved address has its pod", check_reservations, kHeld},
    {"links", "no link was left behind", check_links, kLinks},
    {"rules", "no rule was left behind", check_owned, kRules},
    {"address pools", "there are enough addresses", check_pools, kPools},
    {"addresses", "the addresses of the pods are theirs", check_held, kHeld},
    {"subnets", "no two networks share addresses", check_subnets, kPools},
    {"routes", "the node routes no subnet of a network elsewhere", check_routes, kSubnets},
    {"forwarding", "the node forwards packets", check_forwarding, kCache},
    {"IPv6", "IPv6 is on where it is used", check_ipv6, kSubnets},
    {"reverse path", "no answer takes a way that the filter refuses", check_reverse_path, kRoutes},
    {"bridge netfilter", "bridged packets are treated as the networks need it",
     check_bridge_netfilter, kFirewall},
    {"forward policy", "no chain drops what pods send", check_forward_policy, kFirewall},
    {"firewalld", "firewalld is not in the way", check_firewalld, kFirewall},
    {"iptables", "one iptables has all rules", check_backends, kFirewall},
    {"NAT exemptions", "no rule spares pods the NAT that they have all the same", check_exemptions,
     kNat},
    {"connections", "there is room for new connections", check_conntrack},
    {"uplink", "there is a way out", check_uplink, kSubnets},
    {"MTU", "no bridge has a larger MTU than the uplink", check_mtu, kRoutes},
    {"clock", "clock and boot ID can be trusted", check_clock},
    {"disks", "state can be written", check_disks},
};

}  // namespace

std::span<const Check> all_checks() { return kChecks; }

}  // namespace tool::doctor
