#include <linux/if_bridge.h>
#include <linux/if_link.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>

#include <climits>

#include "tests/judge/judges.h"
#include "tests/judge/policy.h"

namespace judge {

namespace {

namespace nf = netlink::nf;
using netlink::Bytes;

void veth_end(const Range& theirs, const netlink::VethEnd& ours, unsigned mtu) {
  same("the name of an end", ours.name, theirs.text(IFLA_IFNAME));
  same("the MAC address of an end", ours.mac.str(), theirs.as<netlink::Mac>(IFLA_ADDRESS).str());
  same("the MTU of an end", mtu, theirs.u32(IFLA_MTU));
  same("the master of an end", ours.master, theirs.u32(IFLA_MASTER));
}

// The comment of nft's userdata: libnftnl/udata.h, type 0, a length, a text with its NUL.
std::string comment_in(const Bytes& userdata) {
  if (userdata.size() < 3 || userdata[0] != 0 || userdata[1] == 0 ||
      userdata[1] + 2U > userdata.size())
    return "";
  return {userdata.begin() + 2, userdata.begin() + 1 + userdata[1]};
}

Bytes value_in(const Range& range, int type) {
  return range.nested(static_cast<unsigned>(type)).bytes(NFTA_DATA_VALUE);
}

void verdict(const Range& data, const nf::Verdict& ours) {
  const Range theirs = data.nested(NFTA_DATA_VERDICT);
  same("the code of a verdict", ours.code, static_cast<int>(theirs.be32(NFTA_VERDICT_CODE)));
  same("the chain of a verdict", ours.chain, theirs.text(NFTA_VERDICT_CHAIN));
}

// What each expression says, against libmnl's reading of NFTA_EXPR_DATA.
struct Expression {
  std::string name;
  Range data;

  void is(const char* ours) const { same("the kind of an expression", std::string(ours), name); }
  void number(std::uint32_t ours, int type) const {
    same("a number of an expression", ours, data.be32(static_cast<unsigned>(type)));
  }
  void bytes(const Bytes& ours, int type) const {
    same("the data of an expression", ours, value_in(data, type));
  }

  void operator()(const nf::Meta& e) const {
    is("meta");
    number(e.key, NFTA_META_KEY);
    number(e.reg, e.set ? NFTA_META_SREG : NFTA_META_DREG);
  }
  void operator()(const nf::Ct& e) const {
    is("ct");
    number(e.key, NFTA_CT_KEY);
    number(e.dreg, NFTA_CT_DREG);
  }
  void operator()(const nf::Payload& e) const {
    is("payload");
    number(e.dreg, NFTA_PAYLOAD_DREG);
    number(e.base, NFTA_PAYLOAD_BASE);
    number(e.offset, NFTA_PAYLOAD_OFFSET);
    number(e.len, NFTA_PAYLOAD_LEN);
  }
  void operator()(const nf::Cmp& e) const {
    is("cmp");
    number(e.sreg, NFTA_CMP_SREG);
    number(e.op, NFTA_CMP_OP);
    bytes(e.data, NFTA_CMP_DATA);
  }
  void operator()(const nf::Bitwise& e) const {
    is("bitwise");
    number(e.reg, NFTA_BITWISE_SREG);
    number(e.reg, NFTA_BITWISE_DREG);
    bytes(e.mask, NFTA_BITWISE_MASK);
    bytes(e.flip, NFTA_BITWISE_XOR);
  }
  void operator()(const nf::Verdict& e) const {
    is("immediate");
    number(NFT_REG_VERDICT, NFTA_IMMEDIATE_DREG);
    verdict(data.nested(NFTA_IMMEDIATE_DATA), e);
  }
  void operator()(const nf::Immediate& e) const {
    is("immediate");
    number(e.dreg, NFTA_IMMEDIATE_DREG);
    bytes(e.data, NFTA_IMMEDIATE_DATA);
  }
  void operator()(const nf::Masq& e) const {
    is("masq");
    number(e.flags, NFTA_MASQ_FLAGS);
  }
  void operator()(const nf::Counter&) const { is("counter"); }
  void operator()(const nf::Lookup& e) const {
    is("lookup");
    number(e.sreg, NFTA_LOOKUP_SREG);
    number(e.dreg.value_or(0), NFTA_LOOKUP_DREG);
    number(e.inverted ? NFT_LOOKUP_F_INV : 0, NFTA_LOOKUP_FLAGS);
    same("the set of a lookup", e.set, data.text(NFTA_LOOKUP_SET));
  }
  void operator()(const nf::Nat& e) const {
    is("nat");
    number(e.type, NFTA_NAT_TYPE);
    number(e.family, NFTA_NAT_FAMILY);
    number(e.address_reg, NFTA_NAT_REG_ADDR_MIN);
    number(e.port_reg, NFTA_NAT_REG_PROTO_MIN);
    const std::uint32_t implied = NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED;
    same("the flags of NAT", e.flags, data.be32(NFTA_NAT_FLAGS) & ~implied);
  }
  void operator()(const nf::Fib& e) const {
    is("fib");
    number(e.flags, NFTA_FIB_FLAGS);
    number(e.result, NFTA_FIB_RESULT);
    number(e.dreg, NFTA_FIB_DREG);
  }
  void operator()(const nf::Xt& e) const {
    is(e.target ? "target" : "match");
    same("the name of an extension", e.name,
         data.text(e.target ? unsigned{NFTA_TARGET_NAME} : unsigned{NFTA_MATCH_NAME}));
    same("the bytes of an extension", e.info,
         data.bytes(e.target ? unsigned{NFTA_TARGET_INFO} : unsigned{NFTA_MATCH_INFO}));
  }
  void operator()(const nf::Unknown& e) const { is(e.name.c_str()); }
};

netlink::Ip ip_in(const Range& ips, unsigned v4, unsigned v6) {
  const Bytes bytes = ips.bytes(ips.has(v4) ? v4 : v6);
  return netlink::Ip::from_bytes(bytes.data(), bytes.size());
}

nf::Tuple tuple_in(const Range& tuple) {
  const Range ips = tuple.nested(CTA_TUPLE_IP), protocol = tuple.nested(CTA_TUPLE_PROTO);
  nf::Tuple out{ip_in(ips, CTA_IP_V4_SRC, CTA_IP_V6_SRC), ip_in(ips, CTA_IP_V4_DST, CTA_IP_V6_DST),
                protocol.be16(CTA_PROTO_SRC_PORT), protocol.be16(CTA_PROTO_DST_PORT)};
  const auto take_icmp = [&](std::uint16_t id, std::uint16_t type, std::uint16_t code) {
    out.source_port = protocol.be16(id);
    out.destination_port = static_cast<std::uint16_t>(protocol.u8(type) * 256 + protocol.u8(code));
  };
  const int number = protocol.u8(CTA_PROTO_NUM);
  if (number == IPPROTO_ICMP) {
    take_icmp(CTA_PROTO_ICMP_ID, CTA_PROTO_ICMP_TYPE, CTA_PROTO_ICMP_CODE);
  } else if (number == IPPROTO_ICMPV6) {
    take_icmp(CTA_PROTO_ICMPV6_ID, CTA_PROTO_ICMPV6_TYPE, CTA_PROTO_ICMPV6_CODE);
  }
  return out;
}

}  // namespace

void veth(View message, const netlink::Veth& ours) {
  const Range all(message, sizeof(ifinfomsg)), info = all.nested(IFLA_LINKINFO);
  veth_end(all, ours.end, ours.mtu);
  same("the kind of a link", std::string("veth"), info.text(IFLA_INFO_KIND));
  const Range data = info.nested(IFLA_INFO_DATA).nested(VETH_INFO_PEER);
  require(data.size > sizeof(ifinfomsg), "the peer of a veth");
  Range peer = data;
  peer.at += sizeof(ifinfomsg);
  peer.size -= sizeof(ifinfomsg);
  veth_end(peer, ours.peer, ours.mtu);
  same("the namespace of a peer", ours.peer_ns.fd(), peer.u32(IFLA_NET_NS_FD));
}

void port_vlans(View message, const std::vector<netlink::PortVlan>& ours) {
  if (!is_well_formed(message, false)) return;
  std::vector<netlink::PortVlan> theirs;
  Range(message, sizeof(br_vlan_msg)).walk([&](const nlattr* one) {
    const Range entry(one);
    if (mnl_attr_get_type(one) != BRIDGE_VLANDB_ENTRY || !entry.has(BRIDGE_VLANDB_ENTRY_INFO))
      return;
    const auto info = entry.as<bridge_vlan_info>(BRIDGE_VLANDB_ENTRY_INFO);
    const bool range = entry.has(BRIDGE_VLANDB_ENTRY_RANGE);
    theirs.push_back({info.vid, range ? entry.u16(BRIDGE_VLANDB_ENTRY_RANGE) : info.vid,
                      (info.flags & BRIDGE_VLAN_INFO_PVID) != 0,
                      (info.flags & BRIDGE_VLAN_INFO_UNTAGGED) != 0});
  });
  require(ours == theirs, "the VLANs of a port");
}

void ack(View message, const std::optional<netlink::Ack>& ours) {
  const auto* const head = reinterpret_cast<const nlmsghdr*>(message.data());
  if (!mnl_nlmsg_ok(head, static_cast<int>(message.size()))) return;
  const bool is_ack = head->nlmsg_type == NLMSG_ERROR || head->nlmsg_type == NLMSG_DONE;
  const std::size_t size = mnl_nlmsg_get_payload_len(head);
  same("which message is an acknowledgement", ours.has_value(), is_ack && size >= sizeof(int));
  if (!ours) return;
  int error = 0;
  std::memcpy(&error, mnl_nlmsg_get_payload(head), sizeof error);
  same("the sequence number of an acknowledgement", ours->sequence, head->nlmsg_seq);
  if (error != INT_MIN) same("the error", ours->error, error < 0 ? -error : 0);
  // Behind the error are the request's header and, unless capped, the rest of the request.
  if ((head->nlmsg_flags & NLM_F_ACK_TLVS) == 0 || size < sizeof(nlmsgerr)) return;
  const auto* const answer = static_cast<const nlmsgerr*>(mnl_nlmsg_get_payload(head));
  std::size_t request = 0;
  if (head->nlmsg_type == NLMSG_ERROR) {
    request = (head->nlmsg_flags & NLM_F_CAPPED) != 0 ? sizeof answer->msg : answer->msg.nlmsg_len;
  }
  if (sizeof(int) + request > size) return;
  const auto fixed = sizeof(int) + static_cast<std::size_t>(MNL_ALIGN(static_cast<int>(request)));
  same("the text of an acknowledgement", ours->text, Range(message, fixed).text(NLMSGERR_ATTR_MSG));
}

void chain(const netlink::Attributes& attributes, const nf::Chain& ours) {
  const Range all(attributes.bytes()), hook = all.nested(NFTA_CHAIN_HOOK);
  if (!is_valid(all, "nf/chain", false)) return;
  same("the table of a chain", ours.id.table, all.text(NFTA_CHAIN_TABLE));
  same("the name of a chain", ours.id.chain, all.text(NFTA_CHAIN_NAME));
  same("whether a chain has a hook", ours.hook.has_value(), hook.has(NFTA_HOOK_HOOKNUM));
  if (!ours.hook) return;
  same("the hook of a chain", ours.hook->number, hook.be32(NFTA_HOOK_HOOKNUM));
  same("the priority of a chain", ours.hook->priority,
       static_cast<int>(hook.be32(NFTA_HOOK_PRIORITY)));
  same("the type of a chain", ours.hook->type, all.text(NFTA_CHAIN_TYPE));
  same("the policy of a chain", ours.hook->policy.value_or(0), all.be32(NFTA_CHAIN_POLICY));
}

void rule(const netlink::Attributes& attributes, const nf::Rule& ours) {
  const Range all(attributes.bytes());
  if (!is_valid(all, "nf/rule", false)) return;
  same("the table of a rule", ours.chain.table, all.text(NFTA_RULE_TABLE));
  same("the chain of a rule", ours.chain.chain, all.text(NFTA_RULE_CHAIN));
  same("the handle of a rule", ours.handle, be64toh(all.u64(NFTA_RULE_HANDLE)));
  std::size_t at = 0;
  all.nested(NFTA_RULE_EXPRESSIONS).walk([&](const nlattr* one) {
    if (mnl_attr_get_type(one) != NFTA_LIST_ELEM) return;
    require(at < ours.exprs.size(), "the number of expressions");
    const Range expr(one);
    std::visit(Expression{expr.text(NFTA_EXPR_NAME), expr.nested(NFTA_EXPR_DATA)},
               ours.exprs[at++]);
  });
  same("the number of expressions", ours.exprs.size(), at);
  if (!any_bytes) {
    same("the comment of a rule", ours.comment, comment_in(all.bytes(NFTA_RULE_USERDATA)));
  }
}

void elements(const netlink::Attributes& attributes, const std::vector<nf::Element>& ours) {
  const Range all(attributes.bytes());
  if (!is_valid(all, "nf/elements", false)) return;
  std::size_t at = 0;
  all.nested(NFTA_SET_ELEM_LIST_ELEMENTS).walk([&](const nlattr* one) {
    if (mnl_attr_get_type(one) != NFTA_LIST_ELEM) return;
    const Range theirs(one);
    if (value_in(theirs, NFTA_SET_ELEM_KEY).empty()) return;  // a catch-all
    require(at < ours.size(), "the number of elements");
    const nf::Element& element = ours[at++];
    same("the key of an element", element.key, value_in(theirs, NFTA_SET_ELEM_KEY));
    same("the data of an element", element.data, value_in(theirs, NFTA_SET_ELEM_DATA));
    verdict(theirs.nested(NFTA_SET_ELEM_DATA), element.verdict.value_or(nf::Verdict()));
    if (any_bytes) return;
    same("the comment of an element", element.comment,
         comment_in(theirs.bytes(NFTA_SET_ELEM_USERDATA)));
  });
  same("the number of elements", ours.size(), at);
}

void flow(const netlink::Attributes& attributes, const std::optional<nf::Flow>& ours) {
  const Range all(attributes.bytes()), original = all.nested(CTA_TUPLE_ORIG);
  if (!ours || !is_valid(all, "ct", false)) return;
  require(ours->original == tuple_in(original), "the original tuple of a connection");
  require(ours->reply == tuple_in(all.nested(CTA_TUPLE_REPLY)), "the reply tuple of a connection");
  const Range protocol = original.nested(CTA_TUPLE_PROTO);
  same("the protocol of a connection", ours->protocol, protocol.u8(CTA_PROTO_NUM));
  same("the ID of a connection", ours->id, all.be32(CTA_ID));
  same("the zone of a connection", ours->zone, all.be16(CTA_ZONE));
  same("the zone of a tuple", ours->original_zone, original.be16(CTA_TUPLE_ZONE));
}

void trace(const netlink::Attributes& attributes, const std::optional<nf::TraceStep>& ours) {
  const Range all(attributes.bytes());
  if (!ours || !is_valid(all, "nf/trace", false)) return;
  same("the packet of a step", ours->packet, all.be32(NFTA_TRACE_ID));
  same("the table of a step", ours->chain.table, all.text(NFTA_TRACE_TABLE));
  same("the chain of a step", ours->chain.chain, all.text(NFTA_TRACE_CHAIN));
  same("the links of a step", std::pair(ours->in, ours->out),
       std::pair(static_cast<int>(all.be32(NFTA_TRACE_IIF)),
                 static_cast<int>(all.be32(NFTA_TRACE_OIF))));
  same("the mark of a step", ours->mark, all.be32(NFTA_TRACE_MARK));
  same("the header of a step", ours->network, all.bytes(NFTA_TRACE_NETWORK_HEADER));
}

}  // namespace judge
