#include "netlink/nf/rule_watch.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <poll.h>

#include "netlink/types/error.h"

namespace netlink::nf {

RuleWatch::RuleWatch() : channel_(NETLINK_NETFILTER) { channel_.join({NFNLGRP_NFTABLES}); }

std::vector<Rule> RuleWatch::added(const ChainId& chain) {
  constexpr int kNewRule = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWRULE;
  std::vector<Rule> out;
  for (;;) {
    pollfd ready{channel_.fd(), POLLIN, 0};
    if (::poll(&ready, 1, 0) <= 0) return out;
    try {
      for (const Reply& reply : Replies{channel_.receive("listen to changes of nf_tables")}) {
        if (reply.type() != kNewRule) continue;
        Rule one = decode_rule(chain.family, attributes_of(reply));
        if (one.chain == chain) out.push_back(std::move(one));
      }
    } catch (const Error&) {
      return out;  // ENOBUFS, or a message without end
    }
  }
}

}  // namespace netlink::nf
