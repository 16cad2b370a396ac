#include "plugins/bridge/macspoof.h"

#include <linux/netfilter.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>
#include <utility>

#include "libcni/common/error.h"
#include "netlink/nf/match.h"
#include "netlink/nf/socket.h"
#include "netlink/types/error.h"

namespace bridge {

namespace {

namespace nf = netlink::nf;

using netlink::cat;
using netlink::Mac;

constexpr std::string_view kChainPrefix = "cni-br-iface-";
constexpr std::int32_t kPriority = -300;  // NF_BR_PRI_NAT_DST_BRIDGED
// NF_BR_PRE_ROUTING; its header clashes with the C library's.
constexpr std::uint32_t kPrerouting = 0;

std::string id_of(const std::string& container_id, const std::string& ifname) {
  return cat(container_id, "-", ifname);
}

std::string comment_of(const std::string& id) { return cat("macspoofchk-", id); }

nf::ChainId prerouting() { return {nf::TableFamily::kBridge, "nat", "PREROUTING"}; }
nf::ChainId iface_chain(const std::string& id) {
  return {nf::TableFamily::kBridge, "nat", cat(kChainPrefix, id)};
}
nf::ChainId mac_chain(const std::string& id) {
  return {nf::TableFamily::kBridge, "nat", cat(kChainPrefix, id, "-mac")};
}

nf::Exprs with(nf::Exprs match, nf::Verdict verdict) {
  match.emplace_back(std::move(verdict));
  return match;
}

bool is_of(const nf::Rule& rule, const std::string& id) { return rule.comment == comment_of(id); }

// A container ID meets several limits here, of which nft's for comments is the lowest.
bool is_short(const std::string& id) {
  constexpr std::size_t kMaxComment = 128;
  return comment_of(id).size() <= kMaxComment;
}

void require_short(const std::string& id) {
  if (!is_short(id)) {
    throw cni::Error(cni::Code::kInvalidConfig,
                     cat("macspoofchk: the container ID is too long: '", id, "'"),
                     "the comment of an nftables rule is limited to 128 bytes");
  }
}

std::vector<nf::Rule> rules_of(nf::NfSocket& socket, const std::string& id) {
  const std::string comment = comment_of(id);
  auto rules = socket.rules(prerouting(), {.comment_start = comment});
  std::erase_if(rules,
                [&](const nf::Rule& rule) { return !is_of(rule, id); });  // id "a" is not "ab"
  return rules;
}

void plan_remove(nf::NfSocket& socket, const std::string& id, nf::Batch& batch) {
  const auto has = socket.has_chains({iface_chain(id), mac_chain(id)});
  if (has[0]) {
    for (const nf::Rule& rule : rules_of(socket, id)) batch.remove(rule);
    batch.flush(iface_chain(id)).remove(iface_chain(id));
  }
  if (has[1]) batch.flush(mac_chain(id)).remove(mac_chain(id));
}

bool is_there(const std::string& link) {
  if (::if_nametoindex(link.c_str()) != 0) return true;
  if (errno == ENODEV) return false;
  throw netlink::Error(cat("look up link '", link, "'"), errno);
}

// The attachments of which no link is left: a port's link goes with its pod. One that was set up
// twice, by another plugin, has two rules, and perhaps only one of the links.
std::set<std::string> orphans(const std::vector<nf::Rule>& seen) {
  std::set<std::string> gone;
  std::set<std::string> alive;
  for (const nf::Rule& rule : seen) {
    const std::string chain = nf::target_of(rule.exprs);
    const std::string link = nf::iifname_of(rule.exprs);
    if (!chain.starts_with(kChainPrefix) || link.empty()) continue;
    const std::string id = chain.substr(kChainPrefix.size());
    if (!is_of(rule, id)) continue;
    (is_there(link) ? alive : gone).insert(id);
  }
  std::erase_if(gone, [&](const std::string& id) { return alive.contains(id); });
  return gone;
}

nf::Rule jump_rule(const std::string& id, const std::string& host_veth) {
  return {prerouting(), with(nf::iifname(host_veth), nf::jump_to(iface_chain(id).chain)),
          comment_of(id)};
}

// plan_macspoof() adds it right before the rule of the attachment's chain, so that its handle is
// the one before. Else, as after nft(8) restored the rules, the list of all pods is read.
bool has_jump(nf::NfSocket& socket, const nf::Exprs& wanted, const nf::Rule& next) {
  const auto usual = socket.rules_at(prerouting(), {next.handle - 1}).front();
  if (usual && usual->exprs == wanted) return true;
  const auto all = socket.rules(prerouting());
  return std::ranges::any_of(all, [&](const nf::Rule& rule) { return rule.exprs == wanted; });
}

}  // namespace

nf::Batch plan_macspoof(const MacspoofState& seen, const std::string& id,
                        const std::string& host_veth, const Mac& mac) {
  nf::Batch batch;
  batch.add(nf::Table{nf::TableFamily::kBridge, "nat"});
  // A chain may be added once more, but then the closing of the socket waits 10 ms.
  if (!seen.has_prerouting) {
    batch.add(nf::Chain{prerouting(), nf::Hook{"filter", kPrerouting, kPriority, NF_ACCEPT}});
  }
  batch.add(nf::Chain{iface_chain(id)}).add(nf::Chain{mac_chain(id)});
  if (seen.has_chains) batch.flush(iface_chain(id)).flush(mac_chain(id));
  for (const nf::Rule& rule : seen.prerouting) batch.remove(rule);
  batch.add(jump_rule(id, host_veth));
  batch.add(nf::Rule{iface_chain(id), {nf::jump_to(mac_chain(id).chain)}, comment_of(id)});
  batch.add(
      nf::Rule{mac_chain(id), with(nf::ether_source(mac), nf::return_verdict()), comment_of(id)});
  batch.add(nf::Rule{mac_chain(id), {nf::drop()}, comment_of(id)});
  return batch;
}

void add_macspoof(const std::string& container_id, const std::string& ifname,
                  const std::string& host_veth, const Mac& mac) {
  const std::string id = id_of(container_id, ifname);
  require_short(id);
  nf::NfSocket socket;
  socket.commit_planned([&](nf::Batch& batch) {
    // No rule can jump to chains that do not exist: the long list need not be read.
    const auto has = socket.has_chains({prerouting(), iface_chain(id), mac_chain(id)});
    MacspoofState seen{has[0], has[1] || has[2]};
    if (seen.has_chains) seen.prerouting = rules_of(socket, id);
    batch = plan_macspoof(seen, id, host_veth, mac);
  });
}

void remove_macspoof(nf::NfSocket& socket, const std::string& container_id,
                     const std::string& ifname) {
  const std::string id = id_of(container_id, ifname);
  if (!is_short(id)) return;
  socket.commit_planned([&](nf::Batch& batch) { plan_remove(socket, id, batch); });
}

void gc_macspoof() {
  auto socket = nf::NfSocket::find();
  if (!socket) return;
  socket->commit_planned([&](nf::Batch& batch) {
    for (const std::string& id : orphans(socket->rules(prerouting()))) {
      plan_remove(*socket, id, batch);
    }
  });
}

void check_macspoof(const std::string& container_id, const std::string& ifname,
                    const std::string& host_veth) {
  const std::string id = id_of(container_id, ifname);
  auto socket = nf::NfSocket::find();
  const auto own = socket ? socket->rules(iface_chain(id)) : std::vector<nf::Rule>();
  if (own.size() == 1 && socket->rules(mac_chain(id)).size() == 2 &&
      has_jump(*socket, jump_rule(id, host_veth).exprs, own.front())) {
    return;
  }
  throw cni::Error(cni::Code::kInternal,
                   cat("check macspoofchk: the rules of '", id, "' are missing or incomplete"));
}

void RemoveMacspoof::operator()() const {
  if (auto socket = nf::NfSocket::find()) remove_macspoof(*socket, container_id, ifname);
}

std::string RemoveMacspoof::describe() const {
  return cat("remove the rules of macspoofchk of '", container_id, "' '", ifname, "'");
}

}  // namespace bridge
