#include <linux/netfilter/nf_tables.h>

#include "netlink/nf/socket.h"
#include "netlink/types/error.h"

namespace netlink::nf {

std::vector<std::optional<Rule>> NfSocket::rules_at(const ChainId& chain,
                                                    const std::vector<std::uint64_t>& handles) {
  std::vector<std::optional<Rule>> found(handles.size());
  for (std::size_t i = 0; i < handles.size(); ++i) {
    std::vector<Message> request;
    Message& one = request.emplace_back(nf_tables_message(NFT_MSG_GETRULE, 0, chain.family));
    one.put(NFTA_RULE_TABLE, chain.table);
    one.put(NFTA_RULE_CHAIN, chain.chain);
    one.put_be64(NFTA_RULE_HANDLE, handles[i]);
    ask(std::move(request), cat("look up a rule of '", chain.str(), "'"),
        [&](std::size_t, const Attributes& rule) { found[i] = decode_rule(chain.family, rule); });
  }
  return found;
}

}  // namespace netlink::nf
