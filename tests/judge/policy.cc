#include "tests/judge/policy.h"

#include <linux/if_addr.h>
#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/net_namespace.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/pkt_cls.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_mirred.h>
#include <linux/veth.h>
#include <sys/socket.h>

#include <cstdio>
#include <iterator>
#include <set>

namespace judge {

namespace {

using Places = std::map<std::string, Place>;

constexpr int kGsoIpv4MaxSize = 63, kGroIpv4MaxSize = 64;  // IFLA_*, since Linux 6.3

// net/core/rtnetlink.c, net/ipv4/devinet.c, fib_frontend.c, net/core/neighbour.c.
const Places kRoute = {
    {"link",
     Place()
         .text({IFLA_IFNAME, IFLA_ALT_IFNAME, IFLA_IFALIAS, IFLA_QDISC})
         .bytes({IFLA_ADDRESS}, 6)
         .u8({IFLA_OPERSTATE, IFLA_LINKMODE, IFLA_PROTO_DOWN})
         .u32({IFLA_MTU, IFLA_MASTER, IFLA_LINK, IFLA_LINK_NETNSID, IFLA_TXQLEN, IFLA_EXT_MASK,
               IFLA_GROUP, IFLA_GSO_MAX_SIZE, IFLA_GSO_MAX_SEGS, IFLA_GRO_MAX_SIZE, kGsoIpv4MaxSize,
               kGroIpv4MaxSize, IFLA_NET_NS_FD, IFLA_NEW_IFINDEX})
         .nest(IFLA_PROP_LIST, "link/names")
         .nest(IFLA_XDP, "link/xdp")
         .nest(IFLA_LINKINFO, "link/info")
         .nest(IFLA_AF_SPEC, "link/families")},
    {"link/names", Place().all({IFLA_ALT_IFNAME}, {MNL_TYPE_NUL_STRING, 0, {}, true})},
    {"link/xdp", Place().u32({IFLA_XDP_FD, IFLA_XDP_FLAGS})},
    {"link/info", Place()
                      .kind(IFLA_INFO_KIND)
                      .nest(IFLA_INFO_DATA, "link/*")
                      .nest(IFLA_INFO_SLAVE_DATA, "port/flags")},
    {"link/bridge", Place().u8({IFLA_BR_VLAN_FILTERING}).u16({IFLA_BR_VLAN_DEFAULT_PVID})},
    {"link/veth", Place().bytes({VETH_INFO_PEER})},
    {"link/macvlan", Place()
                         .u32({IFLA_MACVLAN_MODE, IFLA_MACVLAN_MACADDR_MODE,
                               IFLA_MACVLAN_MACADDR_COUNT, IFLA_MACVLAN_BC_QUEUE_LEN})
                         .u16({IFLA_MACVLAN_FLAGS})
                         .nest(IFLA_MACVLAN_MACADDR_DATA, "link/macs")},
    {"link/macs", Place().all({IFLA_MACVLAN_MACADDR}, {MNL_TYPE_BINARY, 6, {}, true})},
    {"link/ipvlan", Place().u16({IFLA_IPVLAN_MODE, IFLA_IPVLAN_FLAGS})},
    {"link/vlan", Place()
                      .u16({IFLA_VLAN_ID, IFLA_VLAN_PROTOCOL})
                      .bytes({IFLA_VLAN_FLAGS}, sizeof(ifla_vlan_flags))
                      .nest(IFLA_VLAN_EGRESS_QOS, "link/priorities")
                      .nest(IFLA_VLAN_INGRESS_QOS, "link/priorities")},
    {"link/priorities", Place().all({IFLA_VLAN_QOS_MAPPING},
                                    {MNL_TYPE_BINARY, sizeof(ifla_vlan_qos_mapping), {}, true})},
    {"link/vrf", Place().u32({IFLA_VRF_TABLE})},
    {"link/tun", Place()
                     .u8({IFLA_TUN_TYPE, IFLA_TUN_PI, IFLA_TUN_VNET_HDR, IFLA_TUN_PERSIST,
                          IFLA_TUN_MULTI_QUEUE})
                     .u32({IFLA_TUN_OWNER, IFLA_TUN_GROUP})},
    {"link/families", Place().nest(AF_INET, "link/inet").nest(AF_INET6, "link/inet6")},
    {"link/inet", Place().bytes({IFLA_INET_CONF})},
    {"link/inet6", Place().u8({IFLA_INET6_ADDR_GEN_MODE}).bytes({IFLA_INET6_CONF})},
    {"port", Place().nest(IFLA_AF_SPEC, "port/vlans").nest(IFLA_PROTINFO, "port/flags")},
    {"port/vlans",
     Place()
         .u16({IFLA_BRIDGE_FLAGS})
         .all({IFLA_BRIDGE_VLAN_INFO}, {MNL_TYPE_BINARY, sizeof(bridge_vlan_info), {}, true})},
    {"port/flags", Place().u8({IFLA_BRPORT_MODE, IFLA_BRPORT_ISOLATED})},
    {"vlan", Place().list(BRIDGE_VLANDB_ENTRY, "vlan/entry")},
    {"vlan/entry", Place()
                       .bytes({BRIDGE_VLANDB_ENTRY_INFO}, sizeof(bridge_vlan_info))
                       .u16({BRIDGE_VLANDB_ENTRY_RANGE})},
    {"address", Place()
                    .text({IFA_LABEL})
                    .bytes({IFA_LOCAL, IFA_ADDRESS})
                    .bytes({IFA_BROADCAST}, 4)
                    .bytes({IFA_CACHEINFO}, sizeof(ifa_cacheinfo))
                    .u32({IFA_FLAGS})},
    {"route", Place()
                  .bytes({RTA_DST, RTA_GATEWAY, RTA_PREFSRC})
                  .u32({RTA_OIF, RTA_TABLE, RTA_PRIORITY})
                  .nest(RTA_METRICS, "route/metrics")},
    {"route/metrics", Place().u32({RTAX_MTU, RTAX_ADVMSS})},
    {"nsid", Place().u32({NETNSA_NSID, NETNSA_FD})},
    {"neighbour", Place().bytes({NDA_DST}).bytes({NDA_LLADDR}, 6)},
};

// net/sched/sch_api.c, cls_api.c, act_api.c, and the file of each kind.
const Places kTc = {
    {"tc", Place()
               .kind(TCA_KIND)
               .all({TCA_OPTIONS}, {MNL_TYPE_BINARY, 0, "tc/*"})
               .nest(TCA_STAB, "tc/stab")},
    {"tc/stab", Place().u16({TCA_STAB_DATA})},
    {"tc/tbf", Place()
                   .bytes({TCA_TBF_PARMS}, sizeof(tc_tbf_qopt))
                   .u64({TCA_TBF_RATE64, TCA_TBF_PRATE64})
                   .u32({TCA_TBF_PBURST})},
    {"tc/htb", Place()
                   .bytes({TCA_HTB_INIT}, sizeof(tc_htb_glob))
                   .bytes({TCA_HTB_PARMS}, sizeof(tc_htb_opt))
                   .u64({TCA_HTB_RATE64, TCA_HTB_CEIL64})},
    {"tc/fq_codel", Place().u32({TCA_FQ_CODEL_TARGET, TCA_FQ_CODEL_INTERVAL, TCA_FQ_CODEL_LIMIT,
                                 TCA_FQ_CODEL_FLOWS, TCA_FQ_CODEL_QUANTUM,
                                 TCA_FQ_CODEL_MEMORY_LIMIT, TCA_FQ_CODEL_ECN})},
    {"tc/fq", Place()
                  .u32({TCA_FQ_PLIMIT, TCA_FQ_FLOW_PLIMIT, TCA_FQ_HORIZON, TCA_FQ_RATE_ENABLE})
                  .u8({TCA_FQ_HORIZON_DROP})},
    {"tc/u32", Place()
                   .u32({TCA_U32_CLASSID, TCA_U32_DIVISOR})
                   .bytes({TCA_U32_SEL})
                   .nest(TCA_U32_ACT, "tc/actions")},
    {"tc/bpf", Place().u32({TCA_BPF_FD, TCA_BPF_FLAGS, TCA_BPF_ID}).text({TCA_BPF_NAME})},
    {"tc/actions", Place().nest(Place::kAny, "tc/action")},
    {"tc/action", Place().kind(TCA_ACT_KIND).nest(TCA_ACT_OPTIONS, "tc/action/*")},
    {"tc/action/mirred", Place().bytes({TCA_MIRRED_PARMS}, sizeof(tc_mirred))},
    {"action", Place().nest(TCA_ACT_TAB, "tc/actions")},
};

// net/netfilter/nf_tables_api.c, the file of each expression, and nf_conntrack_netlink.c.
const Places kNf = {
    {"nf/table",
     Place().text({NFTA_TABLE_NAME}).u32({NFTA_TABLE_FLAGS}).bytes({NFTA_TABLE_USERDATA})},
    {"nf/chain", Place()
                     .text({NFTA_CHAIN_TABLE, NFTA_CHAIN_NAME, NFTA_CHAIN_TYPE})
                     .u32({NFTA_CHAIN_POLICY})
                     .nest(NFTA_CHAIN_HOOK, "nf/hook")
                     .bytes({NFTA_CHAIN_USERDATA})},
    {"nf/hook", Place().u32({NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY})},
    {"nf/rule", Place()
                    .text({NFTA_RULE_TABLE, NFTA_RULE_CHAIN})
                    .u64({NFTA_RULE_HANDLE})
                    .nest(NFTA_RULE_EXPRESSIONS, "nf/exprs")
                    .bytes({NFTA_RULE_USERDATA})},
    {"nf/exprs", Place().list(NFTA_LIST_ELEM, "nf/expr")},
    {"nf/expr", Place().kind(NFTA_EXPR_NAME).nest(NFTA_EXPR_DATA, "nf/expr/*")},
    {"nf/expr/meta", Place().u32({NFTA_META_KEY, NFTA_META_DREG, NFTA_META_SREG})},
    {"nf/expr/ct", Place().u32({NFTA_CT_KEY, NFTA_CT_DREG})},
    {"nf/expr/payload",
     Place().u32({NFTA_PAYLOAD_DREG, NFTA_PAYLOAD_BASE, NFTA_PAYLOAD_OFFSET, NFTA_PAYLOAD_LEN})},
    {"nf/expr/cmp", Place().u32({NFTA_CMP_SREG, NFTA_CMP_OP}).nest(NFTA_CMP_DATA, "nf/data")},
    {"nf/expr/bitwise",
     Place()
         .u32({NFTA_BITWISE_SREG, NFTA_BITWISE_DREG, NFTA_BITWISE_LEN, NFTA_BITWISE_OP})
         .nest(NFTA_BITWISE_MASK, "nf/data")
         .nest(NFTA_BITWISE_XOR, "nf/data")},
    {"nf/expr/immediate", Place().u32({NFTA_IMMEDIATE_DREG}).nest(NFTA_IMMEDIATE_DATA, "nf/data")},
    {"nf/expr/masq", Place().u32({NFTA_MASQ_FLAGS})},
    {"nf/expr/counter", Place().u64({NFTA_COUNTER_BYTES, NFTA_COUNTER_PACKETS})},
    {"nf/expr/lookup",
     Place().u32({NFTA_LOOKUP_SREG, NFTA_LOOKUP_DREG, NFTA_LOOKUP_FLAGS}).text({NFTA_LOOKUP_SET})},
    {"nf/expr/nat", Place().u32({NFTA_NAT_TYPE, NFTA_NAT_FAMILY, NFTA_NAT_REG_ADDR_MIN,
                                 NFTA_NAT_REG_PROTO_MIN, NFTA_NAT_FLAGS})},
    {"nf/expr/fib", Place().u32({NFTA_FIB_FLAGS, NFTA_FIB_RESULT, NFTA_FIB_DREG})},
    {"nf/data", Place().bytes({NFTA_DATA_VALUE}).nest(NFTA_DATA_VERDICT, "nf/verdict")},
    {"nf/verdict", Place().u32({NFTA_VERDICT_CODE}).text({NFTA_VERDICT_CHAIN})},
    {"nf/set", Place()
                   .text({NFTA_SET_TABLE, NFTA_SET_NAME})
                   .u32({NFTA_SET_FLAGS, NFTA_SET_KEY_TYPE, NFTA_SET_KEY_LEN, NFTA_SET_DATA_TYPE,
                         NFTA_SET_DATA_LEN, NFTA_SET_ID})
                   .bytes({NFTA_SET_USERDATA})},
    {"nf/elements", Place()
                        .text({NFTA_SET_ELEM_LIST_TABLE, NFTA_SET_ELEM_LIST_SET})
                        .nest(NFTA_SET_ELEM_LIST_ELEMENTS, "nf/list")},
    {"nf/list", Place().list(NFTA_LIST_ELEM, "nf/element")},
    {"nf/element", Place()
                       .nest(NFTA_SET_ELEM_KEY, "nf/data")
                       .nest(NFTA_SET_ELEM_DATA, "nf/data")
                       .u32({NFTA_SET_ELEM_FLAGS})
                       .bytes({NFTA_SET_ELEM_USERDATA})},
    {"ct", Place()
               .nest(CTA_TUPLE_ORIG, "ct/tuple")
               .nest(CTA_TUPLE_REPLY, "ct/tuple")
               .u32({CTA_ID})
               .u16({CTA_ZONE})
               .nest(CTA_FILTER, "ct/filter")},
    {"ct/filter", Place().u32({CTA_FILTER_ORIG_FLAGS, CTA_FILTER_REPLY_FLAGS})},
    {"ct/tuple",
     Place().nest(CTA_TUPLE_IP, "ct/ip").nest(CTA_TUPLE_PROTO, "ct/proto").u16({CTA_TUPLE_ZONE})},
    {"ct/ip",
     Place().bytes({CTA_IP_V4_SRC, CTA_IP_V4_DST}, 4).bytes({CTA_IP_V6_SRC, CTA_IP_V6_DST}, 16)},
    {"ct/proto",
     Place()
         .u8({CTA_PROTO_NUM, CTA_PROTO_ICMP_TYPE, CTA_PROTO_ICMP_CODE, CTA_PROTO_ICMPV6_TYPE,
              CTA_PROTO_ICMPV6_CODE})
         .u16({CTA_PROTO_SRC_PORT, CTA_PROTO_DST_PORT, CTA_PROTO_ICMP_ID, CTA_PROTO_ICMPV6_ID})},
    {"nf/trace",
     Place()
         .text({NFTA_TRACE_TABLE, NFTA_TRACE_CHAIN})
         .u64({NFTA_TRACE_RULE_HANDLE})
         .u32({NFTA_TRACE_TYPE, NFTA_TRACE_ID, NFTA_TRACE_IIF, NFTA_TRACE_OIF, NFTA_TRACE_MARK,
               NFTA_TRACE_NFPROTO, NFTA_TRACE_POLICY})
         .u16({NFTA_TRACE_IIFTYPE, NFTA_TRACE_OIFTYPE})
         .nest(NFTA_TRACE_VERDICT, "nf/verdict")
         .bytes({NFTA_TRACE_LL_HEADER, NFTA_TRACE_NETWORK_HEADER, NFTA_TRACE_TRANSPORT_HEADER})},
};

struct Family {
  const char* name = nullptr;  // of a place; none: not judged
  std::size_t fixed = 0;       // bytes of the struct that comes first
};

Family family_of(netlink::View message, int protocol) {
  const unsigned type = netlink::Reply(message).type();
  if (protocol == NETLINK_NETFILTER && type >> 8 == NFNL_SUBSYS_CTNETLINK)
    return {"ct", sizeof(nfgenmsg)};
  if (protocol == NETLINK_NETFILTER &&
      type >> 8 == NFNL_SUBSYS_NFTABLES) {  // NFT_MSG_NEWTABLE, GETTABLE, DELTABLE, NEWCHAIN, ...
    const char* const names[] = {"nf/table", "nf/chain", "nf/rule", "nf/set", "nf/elements"};
    const std::size_t which = (type & 0xff) / 3;
    return which < std::size(names) ? Family{names[which], sizeof(nfgenmsg)} : Family{};
  }
  if (protocol != NETLINK_ROUTE || type < RTM_BASE || type >> 8 != 0) return {};
  switch (RTM_BASE + (type - RTM_BASE) / 4 * 4) {  // NEW, DEL, GET and SET of each
    case RTM_NEWLINK:
      return {message[NLMSG_HDRLEN] == AF_BRIDGE ? "port" : "link", sizeof(ifinfomsg)};
    case RTM_NEWLINKPROP:
      return {"link", sizeof(ifinfomsg)};
    case RTM_NEWADDR:
      return {"address", sizeof(ifaddrmsg)};
    case RTM_NEWROUTE:
      return {"route", sizeof(rtmsg)};
    case RTM_NEWNSID:
      return {"nsid", sizeof(rtgenmsg)};
    case RTM_NEWNEIGH:
      return {"neighbour", sizeof(ndmsg)};
    case RTM_NEWQDISC:
    case RTM_NEWTCLASS:
    case RTM_NEWTFILTER:
      return {"tc", sizeof(tcmsg)};
    case RTM_NEWACTION:
      return {"action", sizeof(tcamsg)};
    case RTM_NEWVLAN:
      return {"vlan", sizeof(br_vlan_msg)};
    default:
      return {};
  }
}

bool is_valid(const nlattr* one, const Policy& policy, const std::string& kind, bool strict) {
  if (mnl_attr_validate(one, policy.type) < 0) return false;
  if (policy.length != 0 && mnl_attr_get_payload_len(one) != policy.length) return false;
  if (strict && policy.type == MNL_TYPE_NESTED && (one->nla_type & NLA_F_NESTED) == 0) return false;
  if (policy.inside.empty()) return true;
  std::string inside = policy.inside;
  if (inside.back() == '*') inside.replace(inside.size() - 1, 1, kind);
  return place_of(inside) == nullptr || is_valid(Range(one), inside, strict);
}

}  // namespace

Place& Place::all(Types types, const Policy& policy) {
  for (const int type : types) policies[static_cast<std::uint16_t>(type)] = policy;
  return *this;
}

const Place* place_of(const std::string& name) {
  for (const auto* const places : {&kRoute, &kTc, &kNf}) {
    if (const auto found = places->find(name); found != places->end()) return &found->second;
  }
  return nullptr;
}

bool is_valid(const Range& range, const std::string& name, bool strict) {
  const Place& place = *place_of(name);
  const std::string kind = place.kind_in == 0 ? "" : range.text(place.kind_in);
  std::set<std::uint16_t> seen;
  bool valid = true;
  const bool filled = range.walk([&](const nlattr* one) {
    const std::uint16_t type = mnl_attr_get_type(one);
    const bool first = seen.insert(type).second;
    auto found = place.policies.find(type);
    if (found == place.policies.end()) found = place.policies.find(Place::kAny);
    const bool fits =
        found == place.policies.end()
            ? first && !strict
            : (first || found->second.repeats) && is_valid(one, found->second, kind, strict);
    if (!fits && strict) std::fprintf(stderr, "judge: attribute %d in %s\n", type, name.c_str());
    valid = valid && fits;
  });
  if (!filled && strict) std::fprintf(stderr, "judge: the end of %s\n", name.c_str());
  return valid && filled;
}

bool is_well_formed(netlink::View message, bool strict, int protocol) {
  const auto* const head = reinterpret_cast<const nlmsghdr*>(message.data());
  if (!mnl_nlmsg_ok(head, static_cast<int>(message.size()))) return false;
  if (strict && (message.size() != head->nlmsg_len || message.size() % MNL_ALIGNTO != 0)) {
    return false;
  }
  if (mnl_nlmsg_get_payload_len(head) == 0) return strict;
  const Family family = family_of(message, protocol);
  if (family.name == nullptr) return strict;
  if (mnl_nlmsg_get_payload_len(head) < family.fixed) return false;
  return is_valid(Range(message, family.fixed), family.name, strict);
}

}  // namespace judge
