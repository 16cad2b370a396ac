#include "plugins/firewall/setup.h"

#include <algorithm>

#include "libcni/common/error.h"
#include "libcni/common/phase.h"
#include "libcni/common/undo.h"
#include "netlink/nf/socket.h"
#include "netlink/sysctl.h"
#include "plugins/common/firewall/iptables_restore.h"
#include "plugins/common/firewall/pod_elements.h"
#include "plugins/common/firewall/xt_tables.h"
#include "plugins/common/link/owned_links.h"
#include "plugins/firewall/claims.h"
#include "plugins/firewall/firewalld.h"
#include "plugins/firewall/iptables.h"
#include "plugins/firewall/nftables.h"

namespace firewall {

namespace {

namespace nf = netlink::nf;
using cni::cat;
using cni::Code;

iptables::Rules iptables_rules(const Conf& conf, const Attachment& attachment, Backend backend) {
  return {.addresses = attachment.addresses,
          .admin_chain = conf.admin_chain,
          .link = attachment.link,
          .policy = conf.policy,
          .policy_alone = backend == Backend::kFirewalld};
}

// Bridge netfilter shows iptables the frames between ports of a bridge. Where the kernel has
// nf_tables, its bridge family judges them.
void require_bridge_netfilter(const Conf& conf, const Attachment& attachment) {
  if (conf.policy != Policy::kIsolated) return;
  for (const Family family : netlink::kFamilies) {
    if (of_family(attachment.addresses, family).empty()) continue;
    const char* const key = family == Family::kIpv4 ? "net/bridge/bridge-nf-call-iptables"
                                                    : "net/bridge/bridge-nf-call-ip6tables";
    if (netlink::read_sysctl(key) == "1") continue;
    throw cni::Error(Code::kPluginUnavailable,
                     cat("ingressPolicy isolated: the kernel has no nf_tables, and sysctl '", key,
                         "' is not 1, so iptables does not see frames between pods of a bridge"),
                     "modprobe br_netfilter, and set the sysctl to 1");
  }
}

void set_up_policies(Firewalls& node, const Conf& conf, const Attachment& attachment) {
  if (node.nf() == nullptr) return require_bridge_netfilter(conf, attachment);
  nft::set_policies(*node.nf(), conf.admin_chain, nft::policies_of(conf, attachment));
}

// Other claims on the address, of pods in other networks.
std::vector<AddressClaim> other_claims(const Claims& claims, const ClaimedAddress& own,
                                       const std::vector<ClaimedAddress>& gone) {
  auto out = claims.find(own.ip);
  std::erase_if(out, [&](const AddressClaim& one) {
    return std::ranges::any_of(
        gone, [&](const ClaimedAddress& each) { return each.ip == own.ip && each.claim == one; });
  });
  return out;
}

// An address is a source of one zone alone: that of the pod that remains.
void remove_source(netlink::dbus::SystemBus& bus, const ClaimedAddress& own,
                   const std::vector<AddressClaim>& others) {
  const auto heir = std::find_if(others.rbegin(), others.rend(), [](const AddressClaim& one) {
    return one.backend == Backend::kFirewalld;
  });
  if (heir == others.rend()) {
    firewalld::remove(bus, own.claim.zone, own.ip);
  } else if (heir->zone != own.claim.zone) {
    firewalld::add(bus, heir->zone, own.ip, true);
  }
}

// Rules first: while there are some, the claims say whose they are.
void remove_claimed(Firewalls& node, const Claims& claims, const std::vector<ClaimedAddress>& all) {
  std::vector<Ip> of_iptables;
  for (const ClaimedAddress& one : all) {
    const auto others = other_claims(claims, one, all);
    const bool is_shared = std::ranges::any_of(
        others, [&](const AddressClaim& other) { return other.backend == Backend::kIptables; });
    if (one.claim.backend == Backend::kIptables && !is_shared) of_iptables.push_back(one.ip);
    if (one.claim.backend != Backend::kFirewalld || node.firewalld() == nullptr) continue;
    remove_source(*node.firewalld(), one, others);
  }
  if (!of_iptables.empty()) iptables::remove(node.nf(), of_iptables);
  for (const ClaimedAddress& one : all) claims.remove(one.ip, one.claim.owner);
}

// Removes claims of earlier ADDs of the attachment, in another backend or with other addresses.
void remove_others(Firewalls& node, const Claims& claims, const Attachment& attachment,
                   const std::optional<AddressClaim>& kept) {
  std::vector<ClaimedAddress> gone;
  for (ClaimedAddress& one : claims.of(attachment)) {
    if (one.claim != kept) gone.push_back(std::move(one));
  }
  remove_claimed(node, claims, gone);
}

// A read-only /run/cni cannot keep claims: goes without them, as the reference plugin.
void set_up_unclaimed(Firewalls& node, const Conf& conf, const Attachment& attachment,
                      Backend backend) {
  const bool is_firewalld = backend == Backend::kFirewalld;
  for (const Ip& ip : attachment.addresses) {
    if (is_firewalld) firewalld::add(*node.firewalld(), conf.zone, ip, false);
  }
  const bool has_policy = conf.policy != Policy::kOpen && !plugins::lacks_restore();
  if (!is_firewalld || has_policy) {
    iptables::add(node.nf(), iptables_rules(conf, attachment, backend));
  }
}

struct Locked {
  Claims claims;
  netlink::Fd lock;
};

// Empty if the directory is read-only.
std::optional<Locked> lock_claims() {
  const auto lock = [] {
    Claims claims = Claims::create();
    claims.require_writable();
    netlink::Fd held = claims.lock();
    return std::optional(Locked{std::move(claims), std::move(held)});
  };
  return cni::noting_failure("firewall: DEL will remove rules by the addresses of prevResult alone",
                             lock, cni::is_refusal);
}

// Claims of iptables whose rules are gone are of pods that the reference plugin detached, as it
// knows no claims, or of rules that were flushed, which REPAIR claims anew.
void drop_stale(Firewalls& node, const Claims& claims, const Ip& ip) {
  auto stale = claims.find(ip);
  std::erase_if(stale, [](const AddressClaim& one) { return one.backend != Backend::kIptables; });
  if (stale.empty() || iptables::has(node.nf(), {ip})) return;
  for (const AddressClaim& one : stale) claims.remove(ip, one.owner);
}

void set_up_claimed(Firewalls& node, const Conf& conf, const Attachment& attachment,
                    Backend backend) {
  const auto locked = lock_claims();
  if (!locked) return set_up_unclaimed(node, conf, attachment, backend);
  const Claims& claims = locked->claims;
  const bool is_firewalld = backend == Backend::kFirewalld;
  const AddressClaim claim{attachment.key.tag(), backend, is_firewalld ? conf.zone : ""};
  remove_others(node, claims, attachment, claim);
  auto rules = iptables_rules(conf, attachment, backend);
  rules.compare = false;
  for (const Ip& ip : attachment.addresses) {
    drop_stale(node, claims, ip);
    const bool is_shared = !claims.find(ip).empty();
    rules.compare = rules.compare || is_shared;
    claims.put(ip, claim);
    if (is_firewalld) firewalld::add(*node.firewalld(), conf.zone, ip, is_shared);
  }
  const bool has_policy = conf.policy != Policy::kOpen && !plugins::lacks_restore();
  if (is_firewalld && !has_policy) return;
  claims.add_handles(claim.owner, iptables::add(node.nf(), rules));
}

void set_up_nftables(Firewalls& node, const Conf& conf, const Attachment& attachment) {
  nft::add(*node.nf(), attachment, conf.admin_chain, nft::policies_of(conf, attachment));
  const auto claims = Claims::find();
  if (!claims || !claims->may_have(attachment)) return;
  const netlink::Fd lock = claims->lock();
  remove_others(node, *claims, attachment, std::nullopt);
}

// Addresses without a claim, for which the reference plugin may have added rules.
std::vector<Ip> unclaimed(const std::optional<Claims>& claims, const Attachment& attachment) {
  std::vector<Ip> out;
  for (const Ip& ip : attachment.addresses) {
    if (!claims || claims->find(ip).empty()) out.push_back(ip);
  }
  return out;
}

void remove_of_reference(Firewalls& node, const Conf& conf, const std::vector<Ip>& addresses) {
  if (addresses.empty()) return;
  plugins::require_readable_legacy("remove the rules of the firewall", "filter");
  if (iptables::remove(node.nf(), addresses)) return;
  if (conf.backend && conf.backend != Backend::kFirewalld) return;
  if (node.firewalld() == nullptr) return;
  for (const Ip& ip : addresses) firewalld::remove(*node.firewalld(), conf.zone, ip);
}

std::string no_backend(const Conf& conf) {
  std::string out;
  const auto append = [&](const std::string& what) {
    out += cat(out.empty() ? "" : ", and ", what);
  };
  if (conf.backend != Backend::kNftables && conf.backend != Backend::kIptables) {
    append(firewalld::unusable().value_or("firewalld has just started"));
  }
  if (!conf.backend || conf.backend == Backend::kIptables) {
    append(plugins::lacks_restore().value_or("iptables has just been installed"));
  }
  if (!conf.backend || conf.backend == Backend::kNftables) append(netlink::nf::kNoNfTables);
  return out;
}

bool usable(Firewalls& node, Backend backend) {
  switch (backend) {
    case Backend::kFirewalld:
      return node.firewalld() != nullptr;
    case Backend::kIptables:
      return !plugins::lacks_restore();
    case Backend::kNftables:
      return node.nf() != nullptr;
  }
  return false;
}

// A firewalld that cannot be asked shows by its table, which other tables' rules cannot open.
void refuse_unseen_firewalld(Firewalls& node) {
  if (netlink::dbus::is_built_in() || node.nf() == nullptr) return;
  if (!node.nf()->has_table(nf::TableFamily::kInet, "firewalld")) return;
  throw cni::Error(
      Code::kPluginUnavailable,
      cat("choose a firewall backend: firewalld runs, and ", firewalld::unusable().value_or("")),
      "set \"backend\": \"nftables\" and accept the pods in firewalld");
}

std::optional<std::string> missing_in_firewalld(Firewalls& node, const Conf& conf,
                                                const Attachment& attachment) {
  if (node.firewalld() == nullptr) return firewalld::unusable();
  for (const Ip& ip : attachment.addresses) {
    if (firewalld::has(*node.firewalld(), conf.zone, ip)) continue;
    return cat("address ", ip.str(), " is not a source of zone '", conf.zone, "'");
  }
  return std::nullopt;
}

bool is_claimed(const std::optional<Claims>& claims, const Attachment& attachment) {
  return claims && !claims->of(attachment).empty();
}

// The policy in the backends whose accepting rules are elsewhere than in our table.
std::optional<std::string> missing_policies(Firewalls& node, const Conf& conf,
                                            const Attachment& attachment) {
  if (node.nf() == nullptr) return std::nullopt;
  return nft::missing_policies(*node.nf(), conf.admin_chain, nft::policies_of(conf, attachment));
}

}  // namespace

nf::NfSocket* Firewalls::nf() {
  if (!std::exchange(nf_.asked, true)) {
    nf_.value = nf::NfSocket::find();
    if (nf_.value && !nf_.value->has_nf_tables()) nf_.value.reset();
  }
  return nf_.value ? &*nf_.value : nullptr;
}

netlink::dbus::SystemBus* Firewalls::firewalld() {
  if (!std::exchange(bus_.asked, true)) bus_.value = firewalld::find();
  return bus_.value ? &*bus_.value : nullptr;
}

Backend choose_backend(Firewalls& node, const Conf& conf) {
  if (!conf.backend) refuse_unseen_firewalld(node);
  for (const Backend one : {Backend::kFirewalld, Backend::kIptables, Backend::kNftables}) {
    if ((!conf.backend || conf.backend == one) && usable(node, one)) return one;
  }
  throw cni::Error(Code::kPluginUnavailable, cat("choose a firewall backend: ", no_backend(conf)));
}

void set_up(Firewalls& node, const Conf& conf, const Attachment& attachment, Backend backend) {
  const cni::Phase phase("firewall");
  if (backend == Backend::kNftables) return set_up_nftables(node, conf, attachment);
  set_up_policies(node, conf, attachment);  // first: nothing is accepted before
  if (attachment.addresses.empty()) return;
  set_up_claimed(node, conf, attachment, backend);
  if (node.nf() != nullptr && nft::has(*node.nf(), attachment)) nft::remove(*node.nf(), attachment);
}

void tear_down(Firewalls& node, const Conf& conf, const Attachment& attachment) {
  const cni::Phase phase("firewall");
  cni::BestEffort each;
  bool found = false;
  if (node.nf() != nullptr) {
    each("nftables", [&] { found = nft::remove(*node.nf(), attachment); });
  }
  const auto claims = Claims::find();
  if (claims) {
    each("claimed addresses", [&] {
      if (!claims->may_have(attachment)) return;
      const netlink::Fd lock = claims->lock();
      const auto own = claims->of(attachment);
      remove_claimed(node, *claims, own);
      claims->remove_list(attachment.key.tag());
      found = found || !own.empty();
    });
  }
  if (!found) {
    each("rules of the reference plugin",
         [&] { remove_of_reference(node, conf, unclaimed(claims, attachment)); });
  }
  each.finish();
}

void remove_stale(Firewalls& node, const std::string& network, cni::Collect& collect) {
  plugins::ask_host_veths(collect);
  cni::BestEffort each;
  if (node.nf() != nullptr) {
    each("nftables", [&] { nft::remove_stale(*node.nf(), network, collect); });
  }
  each("claimed addresses", [&] {
    const auto claims = Claims::find();
    if (!claims) return;
    const netlink::Fd lock = claims->lock();
    const auto takes = [&](const std::string& tag) { return collect.takes("firewall", tag); };
    std::vector<ClaimedAddress> gone = claims->all();
    std::erase_if(gone, [&](const ClaimedAddress& one) { return !takes(one.claim.owner); });
    remove_claimed(node, *claims, gone);
    for (const std::string& owner : claims->owners()) {
      if (takes(owner)) claims->remove_list(owner);
    }
  });
  each.finish();
}

std::optional<Backend> backend_of(Firewalls& node, const Attachment& attachment) {
  if (node.nf() != nullptr && nft::has(*node.nf(), attachment)) return Backend::kNftables;
  const auto claims = Claims::find();
  const auto own = claims ? claims->of(attachment) : std::vector<ClaimedAddress>{};
  if (!own.empty()) return own.front().claim.backend;
  if (iptables::has(node.nf(), unclaimed(claims, attachment))) return Backend::kIptables;
  return std::nullopt;
}

std::optional<std::string> missing(Firewalls& node, const Conf& conf, const Attachment& attachment,
                                   Backend backend) {
  if (backend == Backend::kNftables) {
    if (node.nf() == nullptr) return netlink::nf::kNoNfTables;
    auto flaw = nft::missing(*node.nf(), attachment, conf.admin_chain);
    return flaw ? flaw : missing_policies(node, conf, attachment);
  }
  const bool is_firewalld = backend == Backend::kFirewalld;
  std::optional<std::string> flaw;
  if (is_firewalld) flaw = missing_in_firewalld(node, conf, attachment);
  // The reference plugin has policies in iptables alone.
  const auto claims = Claims::find();
  if (!flaw && is_claimed(claims, attachment)) flaw = missing_policies(node, conf, attachment);
  const bool has_policy = conf.policy != Policy::kOpen && !plugins::lacks_restore();
  if (flaw || (is_firewalld && !has_policy)) return flaw;
  auto rules = iptables_rules(conf, attachment, backend);
  if (claims) rules.handles = claims->handles_of(attachment.key.tag());
  return iptables::missing(node.nf(), rules);
}

void TearDown::operator()() const {
  Firewalls node;
  tear_down(node, conf, attachment);
}

}  // namespace firewall
