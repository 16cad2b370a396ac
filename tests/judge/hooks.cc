// Between the callers of netlink/ and its encoders and decoders, by the linker's --wrap
// (CMakeLists.txt): each request is judged with what it was asked for, each answer with what was
// decoded, and all that is sent.
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/pkt_cls.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "netlink/route/link_move.h"
#include "tests/judge/judges.h"
#include "tests/judge/policy.h"

using namespace netlink;

namespace {

using judge::same;

void is_asked(View message, const Bridge& asked) {
  judge::link(message, {.name = asked.name,
                        .kind = "bridge",
                        .mac = asked.mac,
                        .mtu = asked.mtu,
                        .vlan_filtering = asked.vlan_filtering});
}
void is_asked(View message, const Veth& asked) { judge::veth(message, asked); }
void is_asked(View message, const NewLink& asked) {
  judge::link(message, {.name = asked.name,
                        .kind = asked.kind,
                        .mac = asked.mac.value_or(Mac{}),
                        .mtu = asked.mtu,
                        .tx_queue_length = asked.tx_queue_length.value_or(0),
                        .up = asked.up,
                        .parent_index = asked.parent,
                        .parent_nsid = asked.parent_nsid,
                        .data = judge::as_read(asked.data)});
}
void is_asked(View message, const Link& link) {  // to remove it, or without a link-local address
  const judge::Range all(message, sizeof(ifinfomsg));
  judge::link(message, {.index = link.index, .name = all.text(IFLA_IFNAME)});
  const judge::Range ipv6 = all.nested(IFLA_AF_SPEC).nested(AF_INET6);
  if (ipv6.size != 0) same("the mode", 1, ipv6.u8(IFLA_INET6_ADDR_GEN_MODE));
}
void is_asked(View message, const Link& link, const LinkChange& asked) {
  judge::link(message, {.index = link.index,
                        .name = asked.name.value_or(link.index == 0 ? link.name : ""),
                        .mac = asked.mac.value_or(Mac{}),
                        .mtu = asked.mtu.value_or(0),
                        .gso_max_size = asked.gso_max_size.value_or(0),
                        .up = asked.up.value_or(false),
                        .promiscuous = asked.promiscuous.value_or(false),
                        .master = asked.master.value_or(0),
                        .alias = asked.alias.value_or("")});
  const judge::Range inet =
      judge::Range(message, sizeof(ifinfomsg)).nested(IFLA_AF_SPEC).nested(AF_INET);
  same("arp_notify", asked.arp_notify.value_or(false),
       inet.nested(IFLA_INET_CONF).u32(IPV4_DEVCONF_ARP_NOTIFY) == 1);
}
void is_asked(View message, const Link& link, const LinkMove& asked) {
  judge::link(message,
              {.index = link.index, .name = asked.name, .alias = asked.alias.value_or("")});
  const judge::Range all(message, sizeof(ifinfomsg));
  same("the namespace", asked.to.fd(), all.as<int>(IFLA_NET_NS_FD));
  same("the new index", asked.index, all.as<int>(IFLA_NEW_IFINDEX));
}
void is_asked(View message, const Link& port, const PortFlags& asked) {
  const judge::Range flags = judge::Range(message, sizeof(ifinfomsg)).nested(IFLA_PROTINFO);
  same("the index of a port", port.index, Reply(message).fixed<ifinfomsg>().ifi_index);
  same("hairpin of a port", asked.hairpin.value_or(false), flags.u8(IFLA_BRPORT_MODE) == 1);
  same("isolation of a port", asked.isolated.value_or(false), flags.u8(IFLA_BRPORT_ISOLATED) == 1);
}
void is_asked(View message, const Link& port, const std::vector<PortVlan>& asked) {
  judge::vlans(message, port, asked);
}
void is_asked(View message, const Link& link, const Cidr& asked) {
  judge::address(message, {.link = link.index, .cidr = asked});
}
void is_asked(View message, const Link& link, const NewAddress& asked) {
  is_asked(message, link, asked.cidr);
}
void is_asked(View message, const Link& link, LinkAddress asked) {
  asked.link = link.index;
  judge::address(message, asked);
}
void is_asked(View message, const Link& link, LinkRoute asked) {
  asked.dst = asked.dst.network();
  asked.link = link.index;
  judge::route(message, asked);
}
void is_asked(View message, const Ip& asked) {
  judge::route(message, {.dst = {asked, asked.bits()}, .table = 0, .protocol = 0});
}
void is_asked(View message, const Link& link, const tc::Qdisc& asked) {
  judge::qdisc(message,
               {link.index, asked.parent, asked.handle, std::string(name(asked.kind)), asked.kind});
}
void is_asked(View message, const Link&, const tc::HtbClass& asked) {
  if (Reply(message).type() == RTM_NEWTCLASS) judge::htb_class(message, asked);
}
void is_asked(View message, const Link& link, const tc::Redirect& asked) {
  judge::filter(message, tc::FilterState{.link = link.index,
                                         .parent = asked.parent,
                                         .handle = asked.handle,
                                         .priority = asked.priority,
                                         .protocol = 3,
                                         .kind = "u32",
                                         .flow = tc::handle(1, 1),
                                         .keys = {{}},
                                         .mirreds = {{asked.to_link, true, TC_ACT_STOLEN}}});
}
void is_asked(View message, const Link& link, const tc::ToClass& asked) {
  const std::uint16_t protocol = asked.network.ip.is_v4() ? 0x0800 : 0x86dd;
  judge::filter(message, tc::FilterState{.link = link.index,
                                         .parent = asked.parent,
                                         .priority = asked.priority,
                                         .protocol = protocol,
                                         .kind = "u32",
                                         .flow = asked.flow,
                                         .keys = keys_of(asked.network, asked.end)});
}
void is_asked(View message, const Link& link, const tc::Program& asked) {
  tc::FilterState wanted{.link = link.index,
                         .parent = asked.parent,
                         .handle = asked.handle,
                         .priority = asked.priority,
                         .protocol = 3,
                         .kind = "bpf"};
  if (Reply(message).type() == RTM_NEWTFILTER) {
    wanted.program = asked.name;
    wanted.direct_action = true;
    same("the program", asked.fd,
         judge::Range(message, sizeof(tcmsg)).nested(TCA_OPTIONS).as<int>(TCA_BPF_FD));
  }
  judge::filter(message, wanted);
}
void is_asked(View, const Link&, const tc::FilterGroup&) {}

template <class... Asked>
RouteRequest judged(RouteRequest request, const Asked&... asked) {
  judge::require(judge::is_well_formed(request.message.bytes(), true), "the form of a request");
  is_asked(request.message.bytes(), asked...);
  return request;
}

}  // namespace

// What the codec defines, and what its callers get instead.
#define HOOK(name, symbol, Result, ...)                      \
  Result real_##name(__VA_ARGS__) __asm__("__real_" symbol); \
  Result wrap_##name(__VA_ARGS__) __asm__("__wrap_" symbol);

#define ENCODER(name, symbol, Asked)              \
  HOOK(name, symbol, RouteRequest, const Asked&); \
  RouteRequest wrap_##name(const Asked& asked) { return judged(real_##name(asked), asked); }
ENCODER(add_bridge, "_ZN7netlink3addERKNS_6BridgeE", Bridge)
ENCODER(add_veth, "_ZN7netlink3addERKNS_4VethE", Veth)
ENCODER(add_link, "_ZN7netlink3addERKNS_7NewLinkE", NewLink)
ENCODER(remove_link, "_ZN7netlink11remove_linkERKNS_4LinkE", Link)
ENCODER(without_link_local, "_ZN7netlink18without_link_localERKNS_4LinkE", Link)
ENCODER(path_query, "_ZN7netlink10path_queryERKNS_2IpE", Ip)

#define ENCODER_ON_LINK(name, symbol, Asked)                       \
  HOOK(name, symbol, RouteRequest, const Link&, const Asked&);     \
  RouteRequest wrap_##name(const Link& link, const Asked& asked) { \
    return judged(real_##name(link, asked), link, asked);          \
  }
ENCODER_ON_LINK(set_link, "_ZN7netlink8set_linkERKNS_4LinkERKNS_10LinkChangeE", LinkChange)
ENCODER_ON_LINK(set_port, "_ZN7netlink8set_portERKNS_4LinkERKNS_9PortFlagsE", PortFlags)
ENCODER_ON_LINK(add_vlans, "_ZN7netlink9add_vlansERKNS_4LinkERKSt6vectorINS_8PortVlanESaIS4_EE",
                std::vector<PortVlan>)
ENCODER_ON_LINK(remove_vlans,
                "_ZN7netlink12remove_vlansERKNS_4LinkERKSt6vectorINS_8PortVlanESaIS4_EE",
                std::vector<PortVlan>)
ENCODER_ON_LINK(add_address, "_ZN7netlink3addERKNS_4LinkERKNS_10NewAddressE", NewAddress)
ENCODER_ON_LINK(move_link, "_ZN7netlink9move_linkERKNS_4LinkERKNS_8LinkMoveE", LinkMove)
ENCODER_ON_LINK(add_again, "_ZN7netlink9add_againERKNS_4LinkERKNS_11LinkAddressE", LinkAddress)
ENCODER_ON_LINK(remove_address, "_ZN7netlink6removeERKNS_4LinkERKNS_4CidrE", Cidr)
ENCODER_ON_LINK(add_route, "_ZN7netlink3addERKNS_4LinkERKNS_9LinkRouteE", LinkRoute)
ENCODER_ON_LINK(add_qdisc, "_ZN7netlink2tc3addERKNS_4LinkERKNS0_5QdiscE", tc::Qdisc)
ENCODER_ON_LINK(replace_qdisc, "_ZN7netlink2tc7replaceERKNS_4LinkERKNS0_5QdiscE", tc::Qdisc)
ENCODER_ON_LINK(remove_qdisc, "_ZN7netlink2tc6removeERKNS_4LinkERKNS0_5QdiscE", tc::Qdisc)
ENCODER_ON_LINK(replace_class, "_ZN7netlink2tc7replaceERKNS_4LinkERKNS0_8HtbClassE", tc::HtbClass)
ENCODER_ON_LINK(remove_class, "_ZN7netlink2tc6removeERKNS_4LinkERKNS0_8HtbClassE", tc::HtbClass)
ENCODER_ON_LINK(add_redirect, "_ZN7netlink2tc3addERKNS_4LinkERKNS0_8RedirectE", tc::Redirect)
ENCODER_ON_LINK(replace_redirect, "_ZN7netlink2tc7replaceERKNS_4LinkERKNS0_8RedirectE",
                tc::Redirect)
ENCODER_ON_LINK(add_to_class, "_ZN7netlink2tc3addERKNS_4LinkERKNS0_7ToClassE", tc::ToClass)
ENCODER_ON_LINK(add_program, "_ZN7netlink2tc3addERKNS_4LinkERKNS0_7ProgramE", tc::Program)
ENCODER_ON_LINK(replace_program, "_ZN7netlink2tc7replaceERKNS_4LinkERKNS0_7ProgramE", tc::Program)
ENCODER_ON_LINK(remove_program, "_ZN7netlink2tc6removeERKNS_4LinkERKNS0_7ProgramE", tc::Program)
ENCODER_ON_LINK(remove_filters, "_ZN7netlink2tc6removeERKNS_4LinkERKNS0_11FilterGroupE",
                tc::FilterGroup)

HOOK(neighbour, "_ZN7netlink17correct_neighbourERKNS_4LinkERKNS_2IpERKNS_3MacE", RouteRequest,
     const Link&, const Ip&, const Mac&)
RouteRequest wrap_neighbour(const Link& link, const Ip& ip, const Mac& mac) {
  RouteRequest out = real_neighbour(link, ip, mac);
  judge::neighbour(out.message.bytes(), link, ip, mac);
  return out;
}

#define DECODER(name, symbol, Result)      \
  HOOK(name, symbol, Result, const Reply&) \
  Result wrap_##name(const Reply& reply) { \
    Result out = real_##name(reply);       \
    judge::name(reply.bytes(), out);       \
    return out;                            \
  }
DECODER(link, "_ZN7netlink11decode_linkERKNS_5ReplyE", Link)
DECODER(address, "_ZN7netlink14decode_addressERKNS_5ReplyE", LinkAddress)
DECODER(route, "_ZN7netlink12decode_routeERKNS_5ReplyE", LinkRoute)
DECODER(seen_neighbour, "_ZN7netlink16decode_neighbourERKNS_5ReplyE", std::optional<Neighbour>)
DECODER(path, "_ZN7netlink11decode_pathERKNS_5ReplyE", std::optional<Path>)
DECODER(port_vlans, "_ZN7netlink17decode_port_vlansERKNS_5ReplyE", std::vector<PortVlan>)
DECODER(qdisc, "_ZN7netlink2tc12decode_qdiscERKNS_5ReplyE", tc::QdiscState)
DECODER(htb_class, "_ZN7netlink2tc16decode_htb_classERKNS_5ReplyE", std::optional<tc::HtbClass>)
DECODER(filter, "_ZN7netlink2tc13decode_filterERKNS_5ReplyE", std::optional<tc::FilterState>)
DECODER(ack, "_ZN7netlink10decode_ackERKNS_5ReplyE", std::optional<Ack>)

#define NF_DECODER(name, symbol, Result)                                     \
  HOOK(name, symbol, Result, nf::TableFamily, const Attributes&)             \
  Result wrap_##name(nf::TableFamily family, const Attributes& attributes) { \
    Result out = real_##name(family, attributes);                            \
    judge::name(attributes, out);                                            \
    return out;                                                              \
  }
NF_DECODER(rule, "_ZN7netlink2nf11decode_ruleENS0_11TableFamilyERKNS_10AttributesE", nf::Rule)
NF_DECODER(trace, "_ZN7netlink2nf12decode_traceENS0_11TableFamilyERKNS_10AttributesE",
           std::optional<nf::TraceStep>)
NF_DECODER(chain, "_ZN7netlink2nf12decode_chainENS0_11TableFamilyERKNS_10AttributesE", nf::Chain)

#define NF_ITEMS_DECODER(name, symbol, Result)       \
  HOOK(name, symbol, Result, const Attributes&)      \
  Result wrap_##name(const Attributes& attributes) { \
    Result out = real_##name(attributes);            \
    judge::name(attributes, out);                    \
    return out;                                      \
  }
NF_ITEMS_DECODER(elements, "_ZN7netlink2nf15decode_elementsERKNS_10AttributesE",
                 std::vector<nf::Element>)
NF_ITEMS_DECODER(flow, "_ZN7netlink2nf11decode_flowERKNS_10AttributesE", std::optional<nf::Flow>)

extern "C" ssize_t real_sendmsg(int, const msghdr*, int) __asm__("__real_sendmsg");
extern "C" ssize_t wrap_sendmsg(int, const msghdr*, int) __asm__("__wrap_sendmsg");
ssize_t wrap_sendmsg(int fd, const msghdr* datagram, int flags) {
  int domain = 0, protocol = 0;
  socklen_t size = sizeof domain;
  ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size);
  ::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size);
  for (std::size_t i = 0; domain == AF_NETLINK && i < datagram->msg_iovlen; ++i) {
    const iovec& part = datagram->msg_iov[i];
    View rest(static_cast<const std::uint8_t*>(part.iov_base), part.iov_len);
    while (const auto one = Reply::take(rest)) {
      judge::require(judge::is_well_formed(one->bytes(), true, protocol),
                     "the form of a message that is sent");
    }
    judge::require(rest.empty(), "the end of a datagram that is sent");
  }
  return real_sendmsg(fd, datagram, flags);
}
