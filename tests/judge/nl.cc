// libnl has headers of the same names as netlink/: these three by their place in /usr/include,
// first.
// clang-format off
#include <libnl3/netlink/route/link.h>
#include <libnl3/netlink/route/neighbour.h>
#include <libnl3/netlink/route/route.h>
// clang-format on
#include <arpa/inet.h>
#include <linux/if.h>
#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <netlink/msg.h>
#include <netlink/route/act/mirred.h>
#include <netlink/route/action.h>
#include <netlink/route/addr.h>
#include <netlink/route/class.h>
#include <netlink/route/classifier.h>
#include <netlink/route/cls/u32.h>
#include <netlink/route/link/bridge.h>
#include <netlink/route/link/inet.h>
#include <netlink/route/qdisc.h>
#include <netlink/route/qdisc/fifo.h>
#include <netlink/route/qdisc/fq_codel.h>
#include <netlink/route/qdisc/htb.h>
#include <netlink/route/qdisc/tbf.h>

#include <algorithm>

#include "tests/judge/judges.h"
#include "tests/judge/policy.h"

namespace judge {

namespace {

namespace tc = netlink::tc;

void keep(nl_object* object, void* out) {
  nl_object_get(object);
  *static_cast<nl_object**>(out) = object;
}

/// What libnl-route reads in a message; empty where it is not well-formed.
template <class Object>
class Read {
 public:
  explicit Read(View message) {
    if (!is_well_formed(message, false)) {
      require(any_bytes, "the form of a message");
      return;
    }
    nl_msg* const copy = nlmsg_alloc_size(message.size() + 64);
    std::memcpy(nlmsg_hdr(copy), message.data(), message.size());
    nlmsg_set_proto(copy, NETLINK_ROUTE);
    // Without a name there is no link for libnl-route.
    if (std::is_same_v<Object, rtnl_link> && !Range(message, sizeof(ifinfomsg)).has(IFLA_IFNAME)) {
      nla_put_string(copy, IFLA_IFNAME, "");
    }
    if (nl_msg_parse(copy, keep, &object_) < 0) object_ = nullptr;
    nlmsg_free(copy);
    require(object_ != nullptr || any_bytes, "libnl-route refuses a message");
  }
  Read(const Read&) = delete;
  Read& operator=(const Read&) = delete;
  ~Read() {
    if (object_ != nullptr) nl_object_put(object_);
  }
  explicit operator bool() const { return object_ != nullptr; }
  operator Object*() const { return reinterpret_cast<Object*>(object_); }

 private:
  nl_object* object_ = nullptr;
};

std::string text(const char* text) { return text == nullptr ? "" : text; }

netlink::Ip ip(nl_addr* address) {
  if (address == nullptr || nl_addr_get_len(address) == 0) return {};
  return netlink::Ip::from_bytes(nl_addr_get_binary_addr(address), nl_addr_get_len(address));
}

std::string mac(nl_addr* address) {
  netlink::Mac out{};
  if (address != nullptr && nl_addr_get_len(address) == out.bytes.size()) {
    std::memcpy(out.bytes.data(), nl_addr_get_binary_addr(address), out.bytes.size());
  }
  return out.str();
}

std::uint32_t number(tc::Handle handle) { return static_cast<std::uint32_t>(handle); }

// What libnl 3.7 does not read of a link.
void link_by_mnl(const Range& all, const netlink::Link& ours) {
  const Range info = all.nested(IFLA_LINKINFO), bridge = info.nested(IFLA_INFO_DATA);
  const Range port = info.nested(IFLA_INFO_SLAVE_DATA);
  same("hairpin of a link", ours.hairpin, port.u8(IFLA_BRPORT_MODE) != 0);
  same("isolation of a link", ours.isolated, port.u8(IFLA_BRPORT_ISOLATED) != 0);
  if (ours.kind == "bridge") {
    same("VLAN filtering", ours.vlan_filtering, bridge.u8(IFLA_BR_VLAN_FILTERING) != 0);
    same("the default PVID", ours.default_pvid, bridge.u16(IFLA_BR_VLAN_DEFAULT_PVID));
  }
  const Range ipv6 = all.nested(IFLA_AF_SPEC).nested(AF_INET6).nested(IFLA_INET6_CONF);
  if (!ours.ipv6 || ipv6.size < (DEVCONF_NDISC_NOTIFY + 1) * sizeof(int)) return;
  int settings[DEVCONF_NDISC_NOTIFY + 1];
  std::memcpy(settings, ipv6.at, sizeof settings);
  same("accept_ra of a link", ours.ipv6->accept_ra, settings[DEVCONF_ACCEPT_RA]);
  same("accept_dad of a link", ours.ipv6->accept_dad, settings[DEVCONF_ACCEPT_DAD]);
  same("disable_ipv6 of a link", ours.ipv6->disable_ipv6, settings[DEVCONF_DISABLE_IPV6]);
  same("ndisc_notify of a link", ours.ipv6->ndisc_notify, settings[DEVCONF_NDISC_NOTIFY]);
}

void tc_head(rtnl_tc* theirs, const std::string& kind, int link, tc::Handle parent,
             tc::Handle handle) {
  same("the kind in tc", kind, text(rtnl_tc_get_kind(theirs)));
  same("the link in tc", link, rtnl_tc_get_ifindex(theirs));
  same("the parent in tc", number(parent), rtnl_tc_get_parent(theirs));
  same("the handle in tc", number(handle), rtnl_tc_get_handle(theirs));
}

rtnl_tc* tc_of(rtnl_qdisc* one) { return reinterpret_cast<rtnl_tc*>(one); }

// As the kernel has room for it.
std::int64_t in_32_bits(std::chrono::microseconds time) {
  return std::clamp<std::int64_t>(time.count(), 0, 0xffffffff);
}

void fq_codel(rtnl_qdisc* theirs, const tc::FqCodel& ours) {
  const auto check = [](const char* what, const auto& value, auto other) {
    if (value) same(what, *value, other);
  };
  const auto check_time = [](const char* what, const auto& value, std::uint32_t other) {
    if (value) same(what, in_32_bits(*value), other);
  };
  check_time("fq_codel's target", ours.target, rtnl_qdisc_fq_codel_get_target(theirs));
  check_time("fq_codel's interval", ours.interval, rtnl_qdisc_fq_codel_get_interval(theirs));
  check("fq_codel's limit", ours.limit, rtnl_qdisc_fq_codel_get_limit(theirs));
  check("fq_codel's flows", ours.flows, rtnl_qdisc_fq_codel_get_flows(theirs));
  check("fq_codel's quantum", ours.quantum, rtnl_qdisc_fq_codel_get_quantum(theirs));
  if (ours.ecn) same("fq_codel's ECN", *ours.ecn, rtnl_qdisc_fq_codel_get_ecn(theirs) != 0);
}

void fq(const Range& theirs, const tc::Fq& ours) {
  same("fq's limit", ours.limit.value_or(0), theirs.u32(TCA_FQ_PLIMIT));
  same("fq's limit of a flow", ours.flow_limit.value_or(0), theirs.u32(TCA_FQ_FLOW_PLIMIT));
  if (ours.horizon) same("fq's horizon", in_32_bits(*ours.horizon), theirs.u32(TCA_FQ_HORIZON));
  same("fq's drop", ours.horizon_drop.value_or(false), theirs.u8(TCA_FQ_HORIZON_DROP) != 0);
  same("fq's pacing", ours.pacing.value_or(false), theirs.u32(TCA_FQ_RATE_ENABLE) != 0);
}

void tbf(rtnl_qdisc* theirs, const Range& options, const tc::Tbf& ours) {
  if (!options.has(TCA_TBF_PARMS)) return;
  constexpr std::uint64_t kMax = 0x7fffffff;  // libnl: an int
  if (ours.rate <= kMax) same("tbf's rate", ours.rate, rtnl_qdisc_tbf_get_rate(theirs));
  if (ours.rate > 0xffffffff) same("tbf's rate", ours.rate, options.u64(TCA_TBF_RATE64));
  const auto parameters = options.as<tc_tbf_qopt>(TCA_TBF_PARMS);
  same("tbf's buffer", ours.buffer, parameters.buffer);
  same("tbf's limit", ours.limit, rtnl_qdisc_tbf_get_limit(theirs));
}

void u32(rtnl_cls* theirs, const tc::FilterState& ours) {
  std::uint32_t flow = 0;
  if (rtnl_u32_get_classid(theirs, &flow) < 0) flow = 0;
  same("the class of a filter", number(ours.flow), flow);
  for (std::size_t i = 0; i < ours.keys.size(); ++i) {
    std::uint32_t value = 0, mask = 0;
    int offset = 0, offset_mask = 0;
    const auto which = static_cast<std::uint8_t>(i);
    if (rtnl_u32_get_key(theirs, which, &value, &mask, &offset, &offset_mask) != 0) continue;
    same("the value of a key", ours.keys[i].value, ::ntohl(value));
    same("the mask of a key", ours.keys[i].mask, ::ntohl(mask));
    same("the offset of a key", ours.keys[i].offset, offset);
  }
  rtnl_act* const action = rtnl_u32_get_action(theirs);
  if (action == nullptr || any_bytes) return;  // libnl has actions in the order of their numbers
  if (text(rtnl_tc_get_kind(reinterpret_cast<rtnl_tc*>(action))) == "mirred") {
    require(!ours.mirreds.empty(), "an action of a filter");
    same("where an action leads", ours.mirreds[0].to_link, rtnl_mirred_get_ifindex(action));
    same("the verdict of an action", ours.mirreds[0].verdict, rtnl_mirred_get_policy(action));
    same("what an action does", ours.mirreds[0].redirect,
         rtnl_mirred_get_action(action) == TCA_EGRESS_REDIR);
  }
}

int occurrences(const Range& of, unsigned type) {
  int out = 0;
  of.walk([&](const nlattr* one) { out += mnl_attr_get_type(one) == type ? 1 : 0; });
  return out;
}

}  // namespace

void link(View message, const netlink::Link& ours) {
  // libnl-route 3.7 ends with a signal in the request for a veth pair (VETH_INFO_PEER).
  const Range info = Range(message, sizeof(ifinfomsg)).nested(IFLA_LINKINFO);
  if (ours.kind == "veth" && info.has(IFLA_INFO_DATA)) return;
  // And in statistics without data, and the number of a macvlan's addresses without the addresses.
  if (info.has(IFLA_INFO_XSTATS) && !info.has(IFLA_INFO_DATA)) return;
  // Of two kinds libnl takes the second.
  if (any_bytes && occurrences(info, IFLA_INFO_KIND) > 1) return;
  const Range data = info.nested(IFLA_INFO_DATA);
  if (data.has(IFLA_MACVLAN_MACADDR_COUNT) && !data.has(IFLA_MACVLAN_MACADDR_DATA)) return;
  const Read<rtnl_link> theirs(message);
  if (!theirs) return;
  link_by_mnl(Range(message, sizeof(ifinfomsg)), ours);
  same("the index of a link", ours.index, rtnl_link_get_ifindex(theirs));
  same("the name of a link", ours.name, text(rtnl_link_get_name(theirs)));
  same("the MTU of a link", ours.mtu, rtnl_link_get_mtu(theirs));
  same("the queue of a link", ours.tx_queue_length, rtnl_link_get_txqlen(theirs));
  same("the master of a link", ours.master, rtnl_link_get_master(theirs));
  same("the peer or parent of a link", ours.peer_index + ours.parent_index,
       rtnl_link_get_link(theirs));
  same("the kind of a link", ours.kind, text(rtnl_link_get_type(theirs)));
  same("the alias of a link", ours.alias, text(rtnl_link_get_ifalias(theirs)));
  same("the qdisc of a link", ours.qdisc, text(rtnl_link_get_qdisc(theirs)));
  same("the MAC address of a link", ours.mac.str(), mac(rtnl_link_get_addr(theirs)));
  same("the state of a link", static_cast<int>(ours.oper_state), rtnl_link_get_operstate(theirs));
  const unsigned flags = rtnl_link_get_flags(theirs);
  same("whether a link is up", ours.up, (flags & IFF_UP) != 0);
  same("whether a link is promiscuous", ours.promiscuous, (flags & IFF_PROMISC) != 0);
  std::uint32_t gso = 0, localnet = 0;
  if (rtnl_link_get_gso_max_size(theirs, &gso) < 0) gso = 0;
  same("gso_max_size of a link", ours.gso_max_size, gso);
  rtnl_link_inet_get_conf(theirs, IPV4_DEVCONF_ROUTE_LOCALNET, &localnet);
  same("route_localnet of a link", ours.route_localnet, localnet == 1);
  int nsid = 0;
  const bool has_nsid = rtnl_link_get_link_netnsid(theirs, &nsid) == 0;
  const auto& ours_nsid = ours.parent_nsid ? ours.parent_nsid : ours.peer_nsid;
  same("whether a peer or parent has a namespace ID", ours_nsid.has_value(), has_nsid);
  same("the namespace ID of a peer or parent", ours_nsid.value_or(0), nsid);
  link_data(theirs, data, ours);
}

void address(View message, const netlink::LinkAddress& ours) {
  const Read<rtnl_addr> theirs(message);
  if (!theirs || ours.cidr == netlink::Cidr()) return;
  same("the link of an address", ours.link, rtnl_addr_get_ifindex(theirs));
  same("an address", ours.cidr.ip.str(), ip(rtnl_addr_get_local(theirs)).str());
  same("the prefix length of an address", ours.cidr.prefix, rtnl_addr_get_prefixlen(theirs));
  const unsigned flags = rtnl_addr_get_flags(theirs);
  same("whether an address is tentative", ours.tentative, (flags & IFA_F_TENTATIVE) != 0);
  same("whether an address is a duplicate", ours.dad_failed, (flags & IFA_F_DADFAILED) != 0);
  if (!ours.lifetime || any_bytes) return;
  same("how long an address is valid", ours.lifetime->valid, rtnl_addr_get_valid_lifetime(theirs));
  same("how long an address is preferred", ours.lifetime->preferred,
       rtnl_addr_get_preferred_lifetime(theirs));
}

void route(View message, const netlink::LinkRoute& ours) {
  const Read<rtnl_route> theirs(message);
  if (!theirs) return;
  same("the table of a route", ours.table, rtnl_route_get_table(theirs));
  same("the scope of a route", ours.scope, rtnl_route_get_scope(theirs));
  same("the protocol of a route", ours.protocol, rtnl_route_get_protocol(theirs));
  same("the priority of a route", ours.priority, rtnl_route_get_priority(theirs));
  nl_addr* const dst = rtnl_route_get_dst(theirs);
  if (ours.dst.prefix != 0) same("a destination", ours.dst.ip.str(), ip(dst).str());
  if (dst != nullptr) same("a prefix length", ours.dst.prefix, nl_addr_get_prefixlen(dst));
  nl_addr* const source = rtnl_route_get_pref_src(theirs);
  same("whether a route has a source", ours.source.has_value(), source != nullptr);
  if (ours.source) same("the source of a route", ours.source->str(), ip(source).str());
  std::uint32_t metric = 0;
  if (ours.mtu != 0) rtnl_route_get_metric(theirs, RTAX_MTU, &metric);
  same("the MTU of a route", ours.mtu, metric);
  if (rtnl_route_get_nnexthops(theirs) != 1) return;
  rtnl_nexthop* const hop = rtnl_route_nexthop_n(theirs, 0);
  same("the link of a route", ours.link, rtnl_route_nh_get_ifindex(hop));
  nl_addr* const gateway = rtnl_route_nh_get_gateway(hop);
  same("whether a route has a gateway", ours.gateway.has_value(), gateway != nullptr);
  if (ours.gateway) same("the gateway of a route", ours.gateway->str(), ip(gateway).str());
}

void path(View message, const std::optional<netlink::Path>& ours) {
  const Read<rtnl_route> theirs(message);
  if (!theirs || !ours) return;
  same("whether a route is local", ours->local, rtnl_route_get_type(theirs) == RTN_LOCAL);
  if (rtnl_route_get_nnexthops(theirs) != 1) return;
  same("the link of a path", ours->link,
       rtnl_route_nh_get_ifindex(rtnl_route_nexthop_n(theirs, 0)));
}

void neighbour(View message, const netlink::Link& link, const netlink::Ip& address,
               const netlink::Mac& hardware) {
  const Read<rtnl_neigh> theirs(message);
  require(bool(theirs), "a neighbour");
  same("the link of a neighbour", link.index, rtnl_neigh_get_ifindex(theirs));
  same("the address of a neighbour", address.str(), ip(rtnl_neigh_get_dst(theirs)).str());
  same("the MAC address of a neighbour", hardware.str(), mac(rtnl_neigh_get_lladdr(theirs)));
  same("the state of a neighbour", NUD_STALE, rtnl_neigh_get_state(theirs));
}

void seen_neighbour(View message, const std::optional<netlink::Neighbour>& ours) {
  const Read<rtnl_neigh> theirs(message);
  if (!theirs || !ours) return;
  same("the link of a neighbour", ours->link, rtnl_neigh_get_ifindex(theirs));
  same("the address of a neighbour", ours->ip.str(), ip(rtnl_neigh_get_dst(theirs)).str());
  same("the state of a neighbour", ours->state, rtnl_neigh_get_state(theirs));
  if (ours->mac) {
    same("the MAC address of a neighbour", ours->mac->str(), mac(rtnl_neigh_get_lladdr(theirs)));
  }
}

void vlans(View message, const netlink::Link& port, const std::vector<netlink::PortVlan>& ours) {
  const Read<rtnl_link> theirs(message);
  require(bool(theirs), "the VLANs of a port");
  same("the index of a port", port.index, rtnl_link_get_ifindex(theirs));
  const rtnl_link_bridge_vlan* const seen = rtnl_link_bridge_get_port_vlan(theirs);
  for (unsigned id = 0; id < RTNL_LINK_BRIDGE_VLAN_BITMAP_MAX; ++id) {
    const auto has = [&](const std::uint32_t* bits) { return (bits[id / 32] >> id % 32 & 1) != 0; };
    const auto in = std::ranges::find_if(
        ours, [&](const netlink::PortVlan& one) { return one.first <= id && id <= one.last; });
    same("a VLAN ID", in != ours.end(), has(seen->vlan_bitmap));
    if (in == ours.end()) continue;
    same("whether a VLAN is untagged", in->untagged, has(seen->untagged_bitmap));
    if (in->pvid) same("the PVID", id, seen->pvid);
  }
}

void qdisc(View message, const tc::QdiscState& ours) {
  const Range options = Range(message, sizeof(tcmsg)).nested(TCA_OPTIONS);
  // libnl 3.7 reads the options of a kind that it knows where there are none: a signal.
  const bool needs = !ours.as<tc::Ingress>() && !ours.as<tc::Clsact>();
  if (!ours.options || (options.size == 0 && needs)) return;
  const Read<rtnl_qdisc> theirs(message);
  if (!theirs) return;
  tc_head(tc_of(theirs), ours.kind, ours.link, ours.parent, ours.handle);
  if (const auto* const one = ours.as<tc::Tbf>()) tbf(theirs, options, *one);
  if (const auto* const one = ours.as<tc::FqCodel>()) fq_codel(theirs, *one);
  if (const auto* const one = ours.as<tc::Fq>()) fq(options, *one);
  if (const auto* const one = ours.as<tc::Htb>()) {
    same("htb's default class", one->default_minor, rtnl_htb_get_defcls(theirs) & 0xffff);
  }
  if (const auto* const one = ours.as<tc::Fifo>()) {
    same("bfifo's limit", one->limit, rtnl_qdisc_fifo_get_limit(theirs));
  }
}

void htb_class(View message, const std::optional<tc::HtbClass>& ours) {
  const Range all(message, sizeof(tcmsg)), options = all.nested(TCA_OPTIONS);
  if (is_well_formed(message, false)) {
    same("whether a class is one of htb", ours.has_value(), all.text(TCA_KIND) == "htb");
  }
  if (!ours || !options.has(TCA_HTB_PARMS)) return;  // without it libnl reads no other option
  const Read<rtnl_class> theirs(message);
  if (!theirs) return;
  auto* const common = reinterpret_cast<rtnl_tc*>(static_cast<rtnl_class*>(theirs));
  tc_head(common, "htb", rtnl_tc_get_ifindex(common), ours->parent, ours->id);
  std::uint64_t rate = 0, ceil = 0;
  rtnl_htb_get_rate64(theirs, &rate);
  rtnl_htb_get_ceil64(theirs, &ceil);
  if (rate != 0) same("the rate of a class", ours->rate, rate);
  if (ceil != 0) same("the ceil of a class", ours->ceil, ceil);
  const auto parameters = options.as<tc_htb_opt>(TCA_HTB_PARMS);
  same("the buffer of a class", ours->buffer, parameters.buffer);
  same("the cbuffer of a class", ours->cbuffer, parameters.cbuffer);
}

void filter(View message, const std::optional<tc::FilterState>& ours) {
  if (!ours) return;
  const Range options = Range(message, sizeof(tcmsg)).nested(TCA_OPTIONS);
  if (ours->kind == "u32" && options.size == 0) return;
  const Read<rtnl_cls> theirs(message);
  if (!theirs) return;
  auto* const common = reinterpret_cast<rtnl_tc*>(static_cast<rtnl_cls*>(theirs));
  tc_head(common, ours->kind, ours->link, ours->parent, ours->handle);
  same("the priority of a filter", ours->priority, rtnl_cls_get_prio(theirs));
  // Without one libnl says ETH_P_ALL.
  if (ours->protocol != 0) {
    same("the protocol of a filter", ours->protocol, rtnl_cls_get_protocol(theirs));
  }
  if (ours->kind == "u32") u32(theirs, *ours);
  if (ours->kind != "bpf") return;  // which libnl 3.7 does not read
  same("the name of a program", ours->program, options.text(TCA_BPF_NAME));
  same("the ID of a program", ours->program_id, options.u32(TCA_BPF_ID));
  same("direct action", ours->direct_action,
       (options.u32(TCA_BPF_FLAGS) & TCA_BPF_FLAG_ACT_DIRECT) != 0);
}

}  // namespace judge
