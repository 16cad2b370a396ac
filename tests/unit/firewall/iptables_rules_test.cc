#include "plugins/firewall/iptables_rules.h"

#include <doctest/doctest.h>
#include <linux/netfilter/nf_tables.h>

#include "netlink/nf/match.h"

using firewall::Family;
using firewall::Ip;
using firewall::Policy;
using firewall::iptables::Existing;
using firewall::iptables::FilterRule;
using firewall::iptables::missing;
using firewall::iptables::rule_from;
using firewall::iptables::rules_to_add;
using firewall::iptables::Wanted;

namespace {

Wanted wanted(Policy policy = Policy::kOpen) {
  return {.family = Family::kIpv4,
          .addresses = {*Ip::parse("10.1.0.2")},
          .admin_chain = "CNI-ADMIN",
          .link = "cni0",
          .policy = policy};
}

FilterRule saved(const char* chain, const char* text) {
  return rule_from(chain, cni::words_of(text));
}

// All that is wanted, as iptables-save prints it after the first ADD.
Existing all_of(Policy policy) {
  Existing out;
  out.chains = {"CNI-FORWARD", "CNI-ADMIN"};
  out.parent = {firewall::iptables::forward_jump()};
  out.forward = firewall::iptables::address_rules(wanted().addresses);
  out.forward.insert(out.forward.begin(), firewall::iptables::admin_jump("CNI-ADMIN"));
  if (policy == Policy::kOpen) return out;
  out.chains.insert({"CNI-ISOLATION-STAGE-1", "CNI-ISOLATION-STAGE-2"});
  out.parent.insert(out.parent.begin(), firewall::iptables::stage_jump(policy));
  out.stages = firewall::iptables::stage_rules("cni0", policy);
  return out;
}

}  // namespace

TEST_CASE("the first pod gets all of it") {
  CHECK(
      rules_to_add(wanted(), {}) ==
      "*filter\n"
      "-N CNI-FORWARD\n"
      "-N CNI-ADMIN\n"
      "-I CNI-FORWARD 1 -m comment --comment \"CNI firewall plugin admin overrides\" -j CNI-ADMIN\n"
      "-A CNI-FORWARD -d 10.1.0.2/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"
      "-A CNI-FORWARD -s 10.1.0.2/32 -j ACCEPT\n"
      "-I FORWARD 1 -m comment --comment \"CNI firewall plugin rules\" -j CNI-FORWARD\n"
      "COMMIT\n");
}

TEST_CASE("policies are before what accepts pods") {
  const std::string text = rules_to_add(wanted(Policy::kSameBridge), {});
  CHECK(text.ends_with(
      "-I FORWARD 1 -m comment --comment \"CNI firewall plugin rules\" -j CNI-FORWARD\n"
      "-I FORWARD 1 -m comment --comment \"CNI firewall plugin rules (ingressPolicy: "
      "same-bridge)\" -j CNI-ISOLATION-STAGE-1\nCOMMIT\n"));
  CHECK(
      text.find("-I CNI-ISOLATION-STAGE-1 1 -i cni0 ! -o cni0 -m comment --comment \"CNI firewall "
                "plugin rules (ingressPolicy: same-bridge)\" -j CNI-ISOLATION-STAGE-2\n") !=
      std::string::npos);
  CHECK(text.find("-i cni0 -o cni0") == std::string::npos);
  const std::string isolated = rules_to_add(wanted(Policy::kIsolated), {});
  CHECK(isolated.find("-i cni0 -o cni0 -m comment --comment \"CNI firewall plugin rules "
                      "(ingressPolicy: isolated)\" -j DROP\n") != std::string::npos);
}

TEST_CASE("nothing is added to what is complete") {
  for (const Policy policy : {Policy::kOpen, Policy::kSameBridge, Policy::kIsolated}) {
    CHECK(rules_to_add(wanted(policy), all_of(policy)) == "");
    CHECK_FALSE(missing(wanted(policy), all_of(policy)).has_value());
  }
}

TEST_CASE("a jump that comes too early is put behind the policies") {
  Existing seen = all_of(Policy::kSameBridge);
  std::swap(seen.parent[0], seen.parent[1]);
  for (const Policy policy : {Policy::kOpen, Policy::kSameBridge}) {
    const std::string text = rules_to_add(wanted(policy), seen);
    CHECK(text.find("-D FORWARD -m comment --comment \"CNI firewall plugin rules (ingressPolicy: "
                    "same-bridge)\" -j CNI-ISOLATION-STAGE-1\n-I FORWARD 1 ") != std::string::npos);
  }
  CHECK(missing(wanted(Policy::kSameBridge), seen)->find("precedes") != std::string::npos);
}

TEST_CASE("after a flush of FORWARD a pod without a policy brings the jump of policies back") {
  Existing seen = all_of(Policy::kSameBridge);
  seen.parent.clear();
  const std::string text = rules_to_add(wanted(), seen);
  CHECK(text.find("-j CNI-ISOLATION-STAGE-1\nCOMMIT\n") != std::string::npos);
}

TEST_CASE("the policy alone, where another backend accepts") {
  Wanted only = wanted(Policy::kSameBridge);
  only.policy_alone = true;
  const std::string text = rules_to_add(only, {});
  CHECK(text.find("CNI-FORWARD") == std::string::npos);
  CHECK(text.find("10.1.0.2") == std::string::npos);
  CHECK(text.find("-j CNI-ISOLATION-STAGE-1\n") != std::string::npos);
}

TEST_CASE("comments of other releases are no difference") {
  const FilterRule rule = saved("FORWARD",
                                "-m comment --comment \"CNI firewall plugin rules (ingressPolicy: "
                                "same-bridge|isolated)\" -j CNI-ISOLATION-STAGE-1");
  CHECK(rule.equals(firewall::iptables::stage_jump(Policy::kSameBridge)));
}

TEST_CASE("rules of iptables-save are read, and others are not taken for ours") {
  const auto own = firewall::iptables::address_rules({*Ip::parse("10.1.0.2")});
  CHECK(saved("CNI-FORWARD", "-d 10.1.0.2/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT")
            .equals(own[0]));
  CHECK(saved("CNI-FORWARD", "-s 10.1.0.2/32 -j ACCEPT").equals(own[1]));
  for (const char* const other :
       {"! -s 10.1.0.2/32 -j ACCEPT", "-s 10.1.0.2/32 -p tcp -j ACCEPT", "-s 10.1.0.0/24 -j ACCEPT",
        "-s 10.1.0.2/32 -j DROP", "-s 10.1.0.2/32 -o eth0 -j ACCEPT",
        "-s 10.1.0.2/32 -m conntrack --ctstate NEW -j ACCEPT", ""}) {
    CHECK_MESSAGE(!saved("CNI-FORWARD", other).equals(own[1]), other);
  }
  const auto stages = firewall::iptables::stage_rules("cni0", Policy::kIsolated);
  CHECK(saved("CNI-ISOLATION-STAGE-1",
              "-i cni0 ! -o cni0 -m comment --comment \"x y\" -j CNI-ISOLATION-STAGE-2")
            .equals(stages[0]));
  CHECK_FALSE(
      saved("CNI-ISOLATION-STAGE-1", "-i cni0 -o cni0 -j CNI-ISOLATION-STAGE-2").equals(stages[0]));
}

TEST_CASE("rules of nf_tables are read") {
  using netlink::nf::Cmp;
  using netlink::nf::Meta;
  using netlink::nf::TableFamily;
  netlink::nf::Rule rule{{TableFamily::kIp, "filter", "CNI-ISOLATION-STAGE-1"}, {}};
  rule.exprs = {Meta{.key = NFT_META_IIFNAME}, Cmp{NFT_CMP_EQ, {'c', 'n', 'i', '0', 0}},
                Meta{.key = NFT_META_OIFNAME}, Cmp{NFT_CMP_NEQ, {'c', 'n', 'i', '0', 0}},
                netlink::nf::Counter{},        netlink::nf::jump_to("CNI-ISOLATION-STAGE-2")};
  const auto stages = firewall::iptables::stage_rules("cni0", Policy::kSameBridge);
  CHECK(rule_from(rule, Family::kIpv4).equals(stages[0]));
  std::get<Cmp>(rule.exprs[1]).data.pop_back();  // "cni0+"
  CHECK_FALSE(rule_from(rule, Family::kIpv4).equals(stages[0]));
}
