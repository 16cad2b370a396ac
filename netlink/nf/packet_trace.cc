#include "netlink/nf/packet_trace.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "netlink/types/error.h"

namespace netlink::nf {

namespace {

std::optional<TraceStep::Kind> kind_of(std::uint32_t type) {
  switch (type) {
    case NFT_TRACETYPE_RULE:
      return TraceStep::Kind::kRule;
    case NFT_TRACETYPE_RETURN:
      return TraceStep::Kind::kReturn;
    case NFT_TRACETYPE_POLICY:
      return TraceStep::Kind::kPolicy;
    default:
      return std::nullopt;
  }
}

Bytes copy_of(const Attribute& one) { return {one.value.begin(), one.value.end()}; }

// Before all others, the defragmentation of conntrack included (NF_IP_PRI_CONNTRACK_DEFRAG).
constexpr std::int32_t kFirst = -500;

Exprs tracing(const TraceFilter& filter) {
  const auto size = static_cast<std::uint32_t>(filter.value.size());
  if (filter.protocol == 0) {
    return {Meta{NFT_META_PROTOCOL},
            Cmp{NFT_CMP_EQ, {0x08, 0x06}},  // ETH_P_ARP
            Payload{NFT_PAYLOAD_NETWORK_HEADER, filter.offset, size},
            Cmp{NFT_CMP_EQ, filter.value},
            Immediate{{1}},
            Meta{NFT_META_NFTRACE, 1, true}};
  }
  return {Meta{NFT_META_L4PROTO},
          Cmp{NFT_CMP_EQ, {filter.protocol}},
          Payload{NFT_PAYLOAD_TRANSPORT_HEADER, filter.offset, size},
          Cmp{NFT_CMP_EQ, filter.value},
          Immediate{{1}},
          Meta{NFT_META_NFTRACE, 1, true}};
}

}  // namespace

std::optional<TraceStep> decode_trace(TableFamily family, const Attributes& attributes) {
  const auto kind = kind_of(attributes.be32(NFTA_TRACE_TYPE));
  if (!kind || !attributes.has(NFTA_TRACE_ID)) return std::nullopt;
  TraceStep out{
      .packet = attributes.be32(NFTA_TRACE_ID),
      .kind = *kind,
      .chain = {family, attributes.text(NFTA_TRACE_TABLE), attributes.text(NFTA_TRACE_CHAIN)},
      .rule = attributes.be64(NFTA_TRACE_RULE_HANDLE),
      .in = static_cast<int>(attributes.be32(NFTA_TRACE_IIF)),
      .out = static_cast<int>(attributes.be32(NFTA_TRACE_OIF)),
      .mark = attributes.be32(NFTA_TRACE_MARK),
      .network = copy_of(attributes.find(NFTA_TRACE_NETWORK_HEADER)),
      .transport = copy_of(attributes.find(NFTA_TRACE_TRANSPORT_HEADER))};
  if (*kind == TraceStep::Kind::kPolicy) {
    out.verdict.code = static_cast<std::int32_t>(attributes.be32(NFTA_TRACE_POLICY));
  } else {
    const Attributes verdict = attributes.nested(NFTA_TRACE_VERDICT);
    out.verdict = {static_cast<std::int32_t>(verdict.be32(NFTA_VERDICT_CODE)),
                   verdict.text(NFTA_VERDICT_CHAIN)};
  }
  return out;
}

Batch tracing_chain(const ChainId& chain, const Hook& hook,
                    const std::vector<TraceFilter>& filters) {
  Batch out;
  out.add(Chain{.id = chain, .hook = hook});
  for (const TraceFilter& filter : filters) out.add(Rule{.chain = chain, .exprs = tracing(filter)});
  return out;
}

// The numbers of the hooks are the same for bridges (NF_BR_* in linux/netfilter_bridge.h).
Batch tracing_table(TableFamily family, const std::string& name,
                    const std::vector<TraceFilter>& filters) {
  Batch out;
  out.add(Table{.family = family, .name = name, .comment = "traces probes", .is_owned = true});
  for (const auto& [chain_name, hook] :
       {std::pair("prerouting", NF_INET_PRE_ROUTING), std::pair("output", NF_INET_LOCAL_OUT)}) {
    const ChainId chain{family, name, chain_name};
    const Hook base{
        .type = "filter", .number = static_cast<std::uint32_t>(hook), .priority = kFirst};
    out.add(Chain{.id = chain, .hook = base});
    for (const TraceFilter& filter : filters) {
      out.add(Rule{.chain = chain, .exprs = tracing(filter)});
    }
  }
  return out;
}

PacketTrace::PacketTrace() : channel_(NETLINK_NETFILTER) {
  // A packet has some forty steps, and as many packets are on their way as are sent at once.
  constexpr int kRoom = 8 << 20;  // bytes
  // In a user namespace as much as net.core.rmem_max lets anybody have.
  for (const int option : {SO_RCVBUF, SO_RCVBUFFORCE}) {
    ::setsockopt(channel_.fd(), SOL_SOCKET, option, &kRoom, sizeof kRoom);
  }
  channel_.join({NFNLGRP_NFTRACE});
}

std::vector<TraceStep> PacketTrace::take(std::size_t most) {
  constexpr int kTrace = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_TRACE;
  std::vector<TraceStep> out;
  while (out.size() < most) {
    pollfd ready{channel_.fd(), POLLIN, 0};
    if (::poll(&ready, 1, 0) <= 0) break;
    try {
      for (const Reply& reply : Replies{channel_.receive("listen to traced packets")}) {
        if (reply.type() != kTrace || reply.payload().size() < sizeof(nfgenmsg)) continue;
        const auto family = static_cast<TableFamily>(reply.fixed<nfgenmsg>().nfgen_family);
        if (auto step = decode_trace(family, attributes_of(reply))) out.push_back(*std::move(step));
      }
    } catch (const Error& e) {
      if (e.error() != ENOBUFS) throw;
      is_complete_ = false;
    }
  }
  return out;
}

}  // namespace netlink::nf
