#include "plugins/firewall/migrate.h"

#include <algorithm>

#include "libcni/common/error.h"
#include "netlink/sysctl.h"
#include "plugins/firewall/claims.h"
#include "plugins/firewall/iptables.h"
#include "plugins/firewall/nftables.h"

namespace firewall {

namespace {

using cni::cat;

bool has_elements(Firewalls& node, const Attachment& attachment) {
  return node.nf() != nullptr && nft::has(*node.nf(), attachment);
}

bool has_claims(const Attachment& attachment) {
  const auto claims = Claims::find();
  return claims && !claims->of(attachment).empty();
}

// Addresses with rules in iptables that nobody claims.
std::vector<Ip> addresses_of_reference(Firewalls& node, const Attachment& attachment) {
  const auto claims = Claims::find();
  std::vector<Ip> out = attachment.addresses;
  std::erase_if(out, [&](const Ip& ip) {
    return (claims && !claims->find(ip).empty()) || !iptables::has(node.nf(), {ip});
  });
  return out;
}

std::optional<std::string> missing_in_own(Firewalls& node, const Attachment& attachment) {
  const auto found = addresses_of_reference(node, attachment);
  if (!found.empty()) return cat("firewall: rules of ", found[0].str(), " to be taken over");
  if (has_elements(node, attachment) || has_claims(attachment)) return std::nullopt;
  return cat("firewall: ", attachment.addresses[0].str(), " to be accepted");
}

void put_own(Firewalls& node, const Conf& conf, const Attachment& attachment) {
  const Backend backend =
      has_elements(node, attachment) ? Backend::kNftables : choose_backend(node, conf);
  {
    const Claims claims = Claims::create();
    const netlink::Fd lock = claims.lock();
    for (const Ip& ip : addresses_of_reference(node, attachment)) {
      claims.put(ip, {attachment.key.tag(), Backend::kIptables});
    }
  }
  set_up(node, conf, attachment, backend);  // removes what is claimed of another backend
}

Backend backend_of_reference(Firewalls& node, Conf conf) {
  if (conf.backend == Backend::kNftables) conf.backend.reset();
  const Backend backend = choose_backend(node, conf);
  if (backend != Backend::kNftables) return backend;
  throw cni::Error(cni::Code::kPluginUnavailable,
                   "the reference plugin has no backend nftables, and iptables is not installed: "
                   "the rules stay as they are");
}

std::optional<std::string> missing_in_reference(Firewalls& node, const Attachment& attachment,
                                                Backend backend) {
  const bool is_own = has_elements(node, attachment) || has_claims(attachment);
  for (const Ip& ip : attachment.addresses) {
    const bool has_rules = backend == Backend::kFirewalld || iptables::has(node.nf(), {ip});
    if (!has_rules) return cat("firewall: rules of ", ip.str(), " to be added to iptables");
  }
  if (!is_own) return std::nullopt;
  return cat("firewall: ", attachment.addresses[0].str(), " to be left to the reference plugin");
}

// In the reference plugin the policy of iptables sees frames of one bridge with bridge netfilter.
void require_policy_of_reference(const Conf& conf, const Attachment& attachment) {
  if (conf.policy != Policy::kIsolated) return;
  for (const Ip& ip : attachment.addresses) {
    const char* const key =
        ip.is_v4() ? "net/bridge/bridge-nf-call-iptables" : "net/bridge/bridge-nf-call-ip6tables";
    if (netlink::read_sysctl(key) == "1") continue;
    throw cni::Error(
        cni::Code::kPluginUnavailable,
        cat("ingressPolicy isolated: sysctl '", key,
            "' is not 1, so the reference plugin would not isolate pods of a bridge: the rules "
            "stay as they are"));
  }
}

// Iptables has the policy by then.
void remove_own(Firewalls& node, const Conf& conf, const Attachment& attachment) {
  if (node.nf() != nullptr) {
    Conf open = conf;
    open.policy = Policy::kOpen;
    nft::set_policies(*node.nf(), conf.admin_chain, nft::policies_of(open, attachment));
    nft::remove(*node.nf(), attachment);
  }
  const auto claims = Claims::find();
  if (!claims) return;
  const netlink::Fd lock = claims->lock();
  for (const ClaimedAddress& one : claims->of(attachment)) {
    claims->remove(one.ip, one.claim.owner);
  }
  claims->remove_list(attachment.key.tag());
}

}  // namespace

void migrate(Firewalls& node, const Conf& conf, const Attachment& attachment, cni::Repair& repair) {
  if (attachment.addresses.empty()) return;
  if (!repair.to_reference()) {
    repair.change(missing_in_own(node, attachment), [&] { put_own(node, conf, attachment); });
    return;
  }
  const Backend backend = backend_of_reference(node, conf);
  require_policy_of_reference(conf, attachment);
  repair.change(missing_in_reference(node, attachment, backend), [&] {
    set_up(node, conf, attachment, backend);
    remove_own(node, conf, attachment);
  });
}

}  // namespace firewall
