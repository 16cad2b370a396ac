#pragma once

#include <optional>
#include <vector>

#include "netlink/ack.h"
#include "netlink/nf/batch.h"
#include "netlink/nf/conntrack.h"
#include "netlink/nf/packet_trace.h"
#include "netlink/route/address.h"
#include "netlink/route/bridge_vlan.h"
#include "netlink/route/neighbour.h"
#include "netlink/route/route.h"
#include "netlink/tc/filter.h"
#include "netlink/tc/htb_class.h"
#include "netlink/tc/qdisc.h"
#include "tests/judge/range.h"

struct rtnl_link;

/// Compare what our decoders gave, or what a request was asked to say, with what libnl-route and
/// libmnl read in the message. Messages that are not well-formed (policy.h) are passed over: libnl
/// trusts the sizes in them.
namespace judge {

using netlink::View;

// nl.cc, nl_link_data.cc: libnl-route, and libmnl for what it does not read.
void link(View message, const netlink::Link& ours);
/// What a kind has; theirs is a libnl object, and data libmnl's range.
void link_data(rtnl_link* theirs, const Range& data, const netlink::Link& ours);
/// What data_of() reads in a request with that data: nothing of a tun, which no request makes.
netlink::LinkData as_read(const netlink::LinkData& data);
void address(View message, const netlink::LinkAddress& ours);
void route(View message, const netlink::LinkRoute& ours);
void path(View message, const std::optional<netlink::Path>& ours);
void neighbour(View message, const netlink::Link& link, const netlink::Ip& ip,
               const netlink::Mac& mac);
/// Of a request to change VLANs; pvid and untagged included.
void vlans(View message, const netlink::Link& port, const std::vector<netlink::PortVlan>& ours);
void qdisc(View message, const netlink::tc::QdiscState& ours);
void seen_neighbour(View message, const std::optional<netlink::Neighbour>& ours);
void htb_class(View message, const std::optional<netlink::tc::HtbClass>& ours);
void filter(View message, const std::optional<netlink::tc::FilterState>& ours);

// mnl.cc: libmnl alone.
void veth(View message, const netlink::Veth& ours);
void port_vlans(View message, const std::vector<netlink::PortVlan>& ours);
void ack(View message, const std::optional<netlink::Ack>& ours);
void chain(const netlink::Attributes& attributes, const netlink::nf::Chain& ours);
void rule(const netlink::Attributes& attributes, const netlink::nf::Rule& ours);
void elements(const netlink::Attributes& attributes, const std::vector<netlink::nf::Element>& ours);
void flow(const netlink::Attributes& attributes, const std::optional<netlink::nf::Flow>& ours);
void trace(const netlink::Attributes& attributes,
           const std::optional<netlink::nf::TraceStep>& ours);

}  // namespace judge
