#include "cnitool/probe/drop_words.h"

#include <algorithm>
#include <string_view>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"

namespace tool::probe {

namespace {

/// {at}: " at link 'cni0'"; {link}: its name; {source}: the packet's. Of remedies each part between
/// "; " is a command. Without a link, a remedy that names one is "ip link".
struct Known {
  std::string_view reason, what, remedy;
  bool is_certain = true;
};
constexpr Known kKnown[] = {
    {"IP_RPFILTER",
     "reverse path filtering drops packets from {source}{at}: the route to {source} leads "
     "elsewhere",
     "sysctl -w net/ipv4/conf/{link}/rp_filter=2"},
    {"IP_LOCALNET", "packets from or to 127.0.0.0/8 are dropped{at}",
     "sysctl -w net/ipv4/conf/{link}/route_localnet=1"},
    {"IP_LOCAL_SOURCE", "packets are dropped{at}: their source is an address of its own",
     "ip -o addr show"},
    {"IP_INVALID_SOURCE", "{source} is not taken as the source of packets{at}",
     "ip route get {source}"},
    {"IPV6DISABLED", "IPv6 is disabled{at}", "sysctl -w net/ipv6/conf/{link}/disable_ipv6=0"},
    {"TC_INGRESS", "a filter of tc drops packets received{at}",
     "tc -s filter show dev {link} ingress"},
    {"TC_EGRESS", "a filter of tc drops packets sent{at}", "tc -s filter show dev {link} egress"},
    {"QDISC_DROP", "the queue drops packets{at}", "tc -s qdisc show dev {link}"},
    {"QDISC_OVERLIMIT", "the queue is full{at}", "tc -s qdisc show dev {link}"},
    {"QDISC_CONGESTED", "the queue is congested{at}", "tc -s qdisc show dev {link}"},
    {"CAKE_FLOOD", "the queue (cake) drops packets as a flood{at}", "tc -s qdisc show dev {link}"},
    {"FQ_BAND_LIMIT", "the queue (fq) is full{at}", "tc -s qdisc show dev {link}"},
    {"FQ_FLOW_LIMIT", "the queue (fq) is full{at}", "tc -s qdisc show dev {link}"},
    {"FQ_HORIZON_LIMIT", "the queue (fq) drops packets that are to leave too late{at}",
     "tc -s qdisc show dev {link}"},
    {"XDP", "an XDP program drops packets{at}",
     "ip link set dev {link} xdp off; ip link set dev {link} xdpgeneric off"},
    {"NETFILTER_DROP", "a rule drops packets{at}", "nft list ruleset; iptables-legacy-save -c"},
    {"XFRM_POLICY", "a policy of IPsec drops packets{at}", "ip -s xfrm policy"},
    {"BPF_CGROUP_EGRESS", "an eBPF program of a cgroup drops packets{at}", "bpftool cgroup tree"},
    {"SOCKET_FILTER", "the filter of a program's socket drops packets{at}", "ss -lntup", false},
    {"SECURITY_HOOK", "a security module of the kernel drops packets{at}",
     "dmesg | grep -i denied"},
    {"CPU_BACKLOG", "the backlog of a processor is full{at}", "sysctl net.core.netdev_max_backlog"},
    {"FULL_RING", "the ring is full{at}", "ip -s link show dev {link}"},
    {"NOMEM", "the kernel has no memory for packets{at}", "free -m"},
    {"PROTO_MEM", "the kernel has no memory for its sockets{at}", "sysctl net.ipv4.tcp_mem"},
    {"SOCKET_RCVBUFF", "the buffer of the socket is full{at}", "ss -ulnpm"},
    {"TCP_CSUM", "packets have a wrong checksum{at}", "ethtool -K {link} tx off rx off"},
    {"UDP_CSUM", "packets have a wrong checksum{at}", "ethtool -K {link} tx off rx off"},
    {"ICMP_CSUM", "packets have a wrong checksum{at}", "ethtool -K {link} tx off rx off"},
    {"IP_CSUM", "packets have a wrong checksum{at}", "ethtool -K {link} tx off rx off"},
    {"SKB_CSUM", "packets have a wrong checksum{at}", "ethtool -K {link} tx off rx off"},
    {"UNHANDLED_PROTO", "packets are of a protocol that nobody takes{at}",
     "ip -d link show dev {link}"},
    {"BRIDGE_INGRESS_STP_STATE", "the port of the bridge does not forward{at}",
     "bridge -d link show dev {link}"},
    {"NO_TX_TARGET", "the bridge has no port for packets{at}",
     "bridge -d link show; bridge fdb show"},
    {"ARP_PVLAN_DISABLE", "the port of the bridge answers no ARP{at}",
     "bridge -d link show dev {link}"},
    {"IP_INHDR", "the time to live of packets is over, or their header is wrong{at}",
     "sysctl net.ipv4.ip_default_ttl net.ipv6.conf.all.hop_limit", false},
    {"DEV_READY", "the link is not up{at}", "ip link set dev {link} up", false},
    {"PKT_TOO_BIG", "packets are too large{at}", "ip link show dev {link}", false},
    {"OTHERHOST", "packets arrive with another MAC address than its own{at}",
     "ip -d link show dev {link}; ip neigh", false},
    {"NO_SOCKET", "no program listens for packets{at}", "ss -lntu", false},
    {"IP_INNOROUTES", "no route leads packets further{at}", "ip route; ip rule", false},
    {"IP_OUTNOROUTES", "no route leads packets further{at}", "ip route; ip rule", false},
    {"IP_INADDRERRORS", "the routes refuse packets{at}", "ip route; ip rule", false},
    {"NEIGH_CREATEFAIL", "the table of neighbours is full{at}",
     "sysctl net.ipv4.neigh.default.gc_thresh3"}};

std::string replaced(std::string text, std::string_view name, const std::string& value) {
  for (auto at = text.find(name); at != std::string::npos;
       at = text.find(name, at + value.size())) {
    text.replace(at, name.size(), value);
  }
  return text;
}

std::string filled(std::string_view text, const DropPlace& place) {
  const std::string where = str(place);
  std::string out = replaced(std::string(text), "{at}", where.empty() ? "" : cat(" at ", where));
  out = replaced(std::move(out), "{source}", place.source);
  return replaced(std::move(out), "{link}", printable(place.link));
}

std::string remedy_of(std::string_view text, const DropPlace& place) {
  DropPlace typed = place;
  typed.link = doctor::quoted(place.link);
  if (place.link.empty() && text.find("{link}") != std::string_view::npos) text = "ip -d link";
  std::string out;
  while (!text.empty()) {
    const auto end = std::min(text.find("; "), text.size());
    const std::string command = replaced(std::string(text.substr(0, end)), "{link}", typed.link);
    if (!out.empty()) out += "; ";
    out += command_at(place, replaced(command, "{source}", place.source));
    text.remove_prefix(std::min(end + 2, text.size()));
  }
  return out;
}

constexpr std::string_view kUnspecified = "NOT_SPECIFIED";

const Known* find_known(std::string_view reason) {
  const auto* const found = std::ranges::find(kKnown, reason, &Known::reason);
  return found == std::end(kKnown) ? nullptr : found;
}

}  // namespace

bool is_of_bridge(const Drop& drop) {
  return drop.symbol.starts_with("br_") || drop.reason.starts_with("BRIDGE_") ||
         drop.reason == "NO_TX_TARGET" || drop.reason == "ARP_PVLAN_DISABLE";
}

bool is_of_filter(const Drop& drop) {
  return drop.reason == "TC_INGRESS" || drop.reason == "TC_EGRESS";
}

bool is_of_queue(const Drop& drop) {
  constexpr std::string_view kBegins[] = {"QDISC_", "FQ_", "CAKE_"};
  return std::ranges::any_of(kBegins, [&](auto one) { return drop.reason.starts_with(one); });
}

bool is_of_xdp(const Drop& drop) {
  return drop.reason == "XDP" || drop.symbol == "veth_xdp_rcv_skb" ||
         drop.symbol == "do_xdp_generic";
}

std::string str(const DropPlace& place) {
  if (place.link.empty()) return place.pod.empty() ? "" : cat("the pod ", place.pod);
  const std::string link = cat("link '", printable(place.link), "'");
  return place.pod.empty() ? link : cat(link, " of the pod ", place.pod);
}

std::string command_at(const DropPlace& place, const std::string& command) {
  if (place.netns.empty()) return command;
  return cat("nsenter --net=", doctor::quoted(place.netns), " ", command);
}

DropWords words_of(const Drop& drop, const DropPlace& place) {
  const Known* known = find_known(is_of_xdp(drop) ? "XDP" : std::string_view(drop.reason));
  if (known == nullptr && is_of_bridge(drop)) {
    return {cat("the bridge drops packets", str(place).empty() ? "" : cat(" at ", str(place)), " (",
                drop.symbol, ")"),
            remedy_of("bridge -d link show dev {link}; bridge vlan show dev {link}", place)};
  }
  if (known != nullptr) {
    return {filled(known->what, place), remedy_of(known->remedy, place), known->is_certain};
  }
  const bool has_reason = !drop.reason.empty() && drop.reason != kUnspecified;
  return {cat("the kernel drops packets", str(place).empty() ? "" : cat(" at ", str(place)), ": ",
              has_reason ? drop.reason : "no reason is given",
              drop.symbol.empty() ? "" : cat(" in ", drop.symbol)),
          "cnitool doctor", false};
}

}  // namespace tool::probe
