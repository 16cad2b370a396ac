#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "netlink/nf/expr.h"
#include "netlink/types/ip.h"
#include "netlink/types/mac.h"

/// The matches and verdicts rules here are made of, as nft itself compiles them: what it would not
/// have written it cannot list.
namespace netlink::nf {

enum class Side { kSource, kDestination };
enum class Compare { kEqual, kNotEqual };

/// `meta nfproto ipv4`: what nft puts before a match on addresses in tables that see both families.
Exprs l3_protocol(Family family);
/// `ip saddr A/P`, `ip6 daddr != A/P`.
Exprs address(Side side, Compare compare, const Cidr& cidr);
/// `iifname "veth0"`. \throws std::invalid_argument for a name a link cannot have.
Exprs iifname(std::string_view name);
/// `ether saddr aa:bb:cc:dd:ee:ff`.
Exprs ether_source(const Mac& mac);

/// A number as `meta mark` and `ct state` have it.
Bytes host_order(std::uint32_t value);

/// States of connections, as Ct and XtStates have them (NF_CT_STATE_BIT() in
/// linux/netfilter/nf_conntrack_common.h).
inline constexpr std::uint32_t kStateEstablished = 2, kStateNew = 8;
/// A state of connections for iptables alone: they have DNAT.
inline constexpr std::uint32_t kXtStateDnat = 128;

/// What `-m conntrack --ctstate` or `-m state --state` takes.
struct XtStates {
  std::uint32_t mask = 0;
  bool inverted = false;
};
/// Empty: another match, or one that looks at more.
std::optional<XtStates> xt_states_of(const Xt& xt);
/// What `-m mark --mark` takes.
struct XtMark {
  std::uint32_t mark = 0, mask = 0;
  bool inverted = false;
};
std::optional<XtMark> xt_mark_of(const Xt& xt);

Verdict accept();
Verdict drop();
Verdict return_verdict();
Verdict jump_to(std::string chain);
Verdict go_to(std::string chain);

/// The address that address() with kEqual put there, also in the form that iptables-nft writes.
std::optional<Cidr> address_of(const Exprs& exprs, Side side, Family family);
/// The link of `iifname "..."`; empty where there is none.
std::string iifname_of(const Exprs& exprs);
/// The chain that the rule jumps or goes to; empty where it does neither.
std::string target_of(const Exprs& exprs);
/// The text of an iptables `-m comment`; empty where there is none.
std::string xt_comment_of(const Exprs& exprs);

}  // namespace netlink::nf
