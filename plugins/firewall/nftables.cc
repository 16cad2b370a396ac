#include "plugins/firewall/nftables.h"

#include <algorithm>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "plugins/firewall/table.h"

namespace firewall::nft {

namespace {

namespace nf = netlink::nf;
using netlink::cat;

nf::Element element_of(const Attachment& attachment, const Ip& ip) {
  const cni::OwnerTag tag = attachment.key.owner_tag();
  return {.key = nf::value_of(ip), .comment = tag.text};
}

std::vector<nf::Element> elements_of(const Attachment& attachment) {
  std::vector<nf::Element> out;
  for (const Ip& ip : attachment.addresses) out.push_back(element_of(attachment, ip));
  return out;
}

bool has_any(const std::vector<LinkPolicy>& policies) {
  return std::ranges::any_of(policies,
                             [](const LinkPolicy& one) { return one.policy != Policy::kOpen; });
}

}  // namespace

void add(nf::NfSocket& socket, const Attachment& attachment, const std::string& admin_chain,
         const std::vector<LinkPolicy>& policies) {
  socket.commit_planned([&](nf::Batch& batch) {
    plan_table(seen_table(socket), admin_chain, batch);
    plugins::plan_add_elements(socket, pods(), elements_of(attachment), batch);
    for (const LinkPolicy& one : policies) plan_policy(socket, one, batch);
  });
}

void set_policies(nf::NfSocket& socket, const std::string& admin_chain,
                  const std::vector<LinkPolicy>& policies) {
  socket.commit_planned([&](nf::Batch& batch) {
    if (has_any(policies)) plan_table(seen_table(socket), admin_chain, batch);
    for (const LinkPolicy& one : policies) plan_policy(socket, one, batch);
  });
}

bool remove(nf::NfSocket& socket, const Attachment& attachment) {
  bool all_own = false;
  socket.commit_planned([&](nf::Batch& batch) {
    all_own = plugins::plan_remove_elements(socket, pods(), attachment.key.tag(),
                                            attachment.addresses, batch);
    plan_remove_policy(socket, attachment, batch);
  });
  return all_own;
}

void remove_stale(nf::NfSocket& socket, const std::string& network, cni::Collect& collect) {
  const auto takes = [&](const std::string& tag) { return collect.takes("firewall", tag); };
  socket.commit_planned([&](nf::Batch& batch) {
    plugins::plan_remove_elements_if(socket, pods(), takes, batch);
    plan_gc_policies(socket, network, collect, batch);
  });
}

std::optional<std::string> missing(nf::NfSocket& socket, const Attachment& attachment,
                                   const std::string& admin_chain) {
  if (auto flaw = table_flaw(seen_table(socket), admin_chain)) return flaw;
  const auto seen =
      plugins::find_elements(socket, pods(), attachment.key.tag(), attachment.addresses);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    const Ip& ip = attachment.addresses[i];
    if (seen[i] == element_of(attachment, ip)) continue;
    return cat("set '", pods().of(ip.family()).str(), "' has no element of the attachment for ",
               ip.str());
  }
  return std::nullopt;
}

std::optional<std::string> missing_policies(nf::NfSocket& socket, const std::string& admin_chain,
                                            const std::vector<LinkPolicy>& policies) {
  if (!has_any(policies)) return std::nullopt;
  auto flaw = table_flaw(seen_table(socket), admin_chain);
  for (const LinkPolicy& one : policies) {
    if (!flaw) flaw = missing_elements(socket, one);
  }
  return flaw;
}

bool has(nf::NfSocket& socket, const Attachment& attachment) {
  const auto seen =
      plugins::find_elements(socket, pods(), attachment.key.tag(), attachment.addresses);
  return std::ranges::any_of(seen, [](const auto& one) { return one.has_value(); });
}

}  // namespace firewall::nft
