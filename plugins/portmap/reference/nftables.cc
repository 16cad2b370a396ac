#include <algorithm>

#include "libcni/common/error.h"
#include "netlink/nf/match.h"
#include "plugins/common/firewall/nft_tool.h"
#include "plugins/portmap/nftables/table.h"
#include "plugins/portmap/reference/reference.h"

namespace portmap::reference {

namespace {

namespace nf = netlink::nf;
using cni::cat;

constexpr const char* kTable = "cni_hostport";
/// The second one is of earlier releases; the third exists only with snat.
constexpr const char* kChains[] = {"hostports", "hostip_hostports", "masquerading"};

std::vector<nf::Rule> rules_of(nf::NfSocket& socket, Family family,
                               const std::string& container_id) {
  std::vector<nf::Rule> out;
  const nf::TableFamily table = nft::table_family(family);
  // All releases create this chain with the table.
  if (!socket.has_chain({table, kTable, kChains[0]})) return out;
  for (const char* const chain : kChains) {
    // A longer comment with this prefix is another container's.
    for (nf::Rule& rule : socket.rules({table, kTable, chain}, {container_id})) {
      if (rule.comment == container_id) out.push_back(std::move(rule));
    }
  }
  return out;
}

// Of pods.
std::size_t count_rules(nf::NfSocket& socket, Family family) {
  std::size_t out = 0;
  for (const char* const chain : kChains) {
    out += socket.rules({nft::table_family(family), kTable, chain}).size();
  }
  return out;
}

// By the address that `dnat to` loads, or by `ip daddr` of a rule that masquerades.
bool leads_to(const nf::Rule& rule, const Ip& pod) {
  const nf::Bytes address = nf::value_of(pod);
  return nf::address_of(rule.exprs, nf::Side::kDestination, pod.family()) ==
             Cidr{pod, pod.bits()} ||
         std::ranges::any_of(rule.exprs, [&](const nf::Expr& expr) {
           const auto* const immediate = std::get_if<nf::Immediate>(&expr);
           return immediate != nullptr && immediate->data == address;
         });
}

std::vector<nf::Rule> rules_of(nf::NfSocket& socket, Family family, const Attachment& attachment) {
  const auto& pod = attachment.pod.of(family);
  if (!pod) return {};
  auto out = rules_of(socket, family, attachment.owner.container_id);
  std::erase_if(out, [&](const nf::Rule& rule) { return !leads_to(rule, pod->ip); });
  return out;
}

// A hook and its only rule. The conditions are those of the last ADD of any network.
std::string hook_text(const std::string& table, const char* hook, const std::string& conditions) {
  return cat("add chain ", table, hook, " { type nat hook ", hook,
             " priority -100 ; }\nflush chain ", table, hook, "\nadd rule ", table, hook, " ",
             conditions, " fib daddr type local jump hostports_all\n");
}

// The reference plugin's transaction (containernetworking/plugins 1.9.1).
std::string text_of(Family family, const Attachment& attachment) {
  const std::string ip = family == Family::kIpv4 ? "ip" : "ip6";
  const std::string table = cat(ip, " ", kTable, " ");
  const std::string conditions = portmap::text_of(attachment.options.conditions(family));
  const std::string comment = cat(" comment \"", attachment.owner.container_id, "\"\n");
  std::string out = cat("add table ", table, "\n");
  for (const char* const chain : {"hostports", "hostip_hostports", "hostports_all"}) {
    out += cat("add chain ", table, chain, "\n");
  }
  out += cat("flush chain ", table, "hostports_all\nadd rule ", table,
             "hostports_all jump hostip_hostports\nadd rule ", table,
             "hostports_all jump hostports\n");
  for (const char* const hook : {"prerouting", "output"}) out += hook_text(table, hook, conditions);
  for (const Claim& claim : attachment.claims) {
    if (claim.key.family != family) continue;
    const auto& at = claim.key.address;
    out += cat("add rule ", table, "hostports ", at ? cat(ip, " daddr ", at->str(), " ") : "",
               name_of(claim.key.protocol), " dport ", claim.key.port, " dnat to ",
               claim.target_str(), comment);
  }
  if (!attachment.options.snat) return out;
  out += cat("add chain ", table, "masquerading { type nat hook postrouting priority 100 ; }\n");
  const std::string pod = attachment.pod.of(family)->ip.str();
  for (const std::string& from : {pod, std::string("127.0.0.1")}) {
    if (from != pod && family == Family::kIpv6) continue;
    out += cat("add rule ", table, "masquerading ", ip, " saddr ", from, " ", ip, " daddr ", pod,
               " masquerade", comment);
  }
  return out;
}

}  // namespace

void remove(nf::NfSocket& socket, const std::string& container_id) {
  socket.commit_planned([&](nf::Batch& batch) {
    for (const Family family : netlink::kFamilies) {
      for (const nf::Rule& rule : rules_of(socket, family, container_id)) batch.remove(rule);
    }
  });
}

// A table without rules of pods has only those that every ADD of the reference plugin adds again.
void remove(nf::NfSocket& socket, const Attachment& attachment) {
  socket.commit_planned([&](nf::Batch& batch) {
    for (const Family family : netlink::kFamilies) {
      const auto own = rules_of(socket, family, attachment);
      if (own.empty()) continue;
      if (count_rules(socket, family) == own.size()) {
        batch.remove(nf::DeleteTable{nft::table_family(family), kTable});
        continue;
      }
      for (const nf::Rule& rule : own) batch.remove(rule);
    }
  });
}

bool has_some(nf::NfSocket& socket, const Attachment& attachment) {
  return std::ranges::any_of(netlink::kFamilies, [&](Family family) {
    return !rules_of(socket, family, attachment).empty();
  });
}

bool has_all(nf::NfSocket& socket, const Attachment& attachment) {
  return std::ranges::all_of(netlink::kFamilies, [&](Family family) {
    if (!attachment.has(family)) return true;
    const auto ports = std::ranges::count_if(
        attachment.claims, [&](const Claim& claim) { return claim.key.family == family; });
    const std::ptrdiff_t masquerading = family == Family::kIpv4 ? 2 : 1;
    return std::ssize(rules_of(socket, family, attachment)) >=
           ports + (attachment.options.snat ? masquerading : 0);
  });
}

void replace(nf::NfSocket& socket, const Attachment& attachment) {
  const Options& options = attachment.options;
  if (options.snat && options.masq_all) {
    throw cni::Error(cni::Code::kInvalidConfig,
                     "masqAll: the reference plugin ignores it with nftables: the ports stay as "
                     "they are");
  }
  std::string text;
  for (const Family family : netlink::kFamilies) {
    if (!attachment.has(family)) continue;
    text += text_of(family, attachment);
    for (const nf::Rule& rule : rules_of(socket, family, attachment)) {
      text += cat("delete rule ", rule.chain.str(), " handle ", rule.handle, "\n");
    }
  }
  plugins::run_nft(text, "the reference plugin's backend nftables requires the package nftables");
}

}  // namespace portmap::reference
