#include "netlink/nf/match.h"

#include <linux/if.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/xt_conntrack.h>
#include <linux/netfilter/xt_mark.h>
#include <linux/netfilter/xt_state.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "netlink/types/error.h"

namespace netlink::nf {

namespace {

// The offset of the address: RFC 791, section 3.1, and RFC 8200, section 3.
std::uint32_t offset_of(Side side, Family family) {
  if (family == Family::kIpv4) return side == Side::kSource ? 12 : 16;
  return side == Side::kSource ? 8 : 24;
}

Bytes first_bytes(const Ip& ip, std::size_t count) { return {ip.data(), ip.data() + count}; }

Bytes mask_of(Family family, unsigned prefix) {
  const Ip ones = Ip::any(family).broadcast(0);
  return first_bytes(ones.masked(prefix), ones.size());
}

// The length of the prefix that mask stands for; nothing where its ones are not all in front.
std::optional<unsigned> prefix_of(const Bytes& mask) {
  unsigned prefix = 0;
  for (const std::uint8_t byte : mask) prefix += static_cast<unsigned>(std::popcount(byte));
  for (unsigned bit = 0; bit < prefix; ++bit) {
    if ((mask[bit / 8] & 0x80U >> bit % 8) == 0) return std::nullopt;
  }
  return prefix;
}

std::optional<Cidr> cidr_from(const Bytes& data, unsigned prefix, Family family) {
  Bytes whole = data;
  const std::size_t size = Ip::any(family).size();
  if (whole.size() > size) return std::nullopt;
  whole.resize(size);
  return Cidr::from_bytes(whole.data(), size, prefix);
}

// The comparison that starts with the load at `at`.
std::optional<Cidr> read_address(const Exprs& exprs, std::size_t at, Family family) {
  auto prefix = std::optional(std::get<Payload>(exprs[at]).len * 8);
  ++at;
  if (at < exprs.size() && std::holds_alternative<Bitwise>(exprs[at])) {
    prefix = prefix_of(std::get<Bitwise>(exprs[at]).mask);
    ++at;
  }
  if (!prefix || *prefix > Ip::any(family).bits() || at >= exprs.size()) return std::nullopt;
  const auto* const cmp = std::get_if<Cmp>(&exprs[at]);
  if (cmp == nullptr || cmp->op != NFT_CMP_EQ) return std::nullopt;
  return cidr_from(cmp->data, *prefix, family);
}

}  // namespace

Exprs l3_protocol(Family family) {
  const std::uint8_t protocol = family == Family::kIpv4 ? NFPROTO_IPV4 : NFPROTO_IPV6;
  return {Meta{.key = NFT_META_NFPROTO}, Cmp{NFT_CMP_EQ, {protocol}}};
}

Exprs address(Side side, Compare compare, const Cidr& cidr) {
  const Ip network = cidr.ip.masked(cidr.prefix);
  const std::uint32_t offset = offset_of(side, network.family());
  const std::uint32_t op = compare == Compare::kEqual ? NFT_CMP_EQ : NFT_CMP_NEQ;
  // nft loads only the bytes that count if the prefix ends on one, and masks otherwise.
  const bool whole_bytes = cidr.prefix % 8 == 0 && cidr.prefix != 0;
  const std::size_t length = whole_bytes ? cidr.prefix / 8 : network.size();
  Exprs out{Payload{NFT_PAYLOAD_NETWORK_HEADER, offset, static_cast<std::uint32_t>(length)}};
  if (!whole_bytes) {
    out.emplace_back(Bitwise{mask_of(network.family(), cidr.prefix), Bytes(length, 0)});
  }
  out.emplace_back(Cmp{op, first_bytes(network, length)});
  return out;
}

Exprs iifname(std::string_view name) {
  if (name.empty() || name.size() >= IFNAMSIZ) {
    throw std::invalid_argument(cat("no link can be called '", name, "'"));
  }
  Bytes padded(name.begin(), name.end());
  padded.resize(IFNAMSIZ);
  return {Meta{.key = NFT_META_IIFNAME}, Cmp{NFT_CMP_EQ, std::move(padded)}};
}

Exprs ether_source(const Mac& mac) {
  return {Payload{NFT_PAYLOAD_LL_HEADER, 6, 6},
          Cmp{NFT_CMP_EQ, {mac.bytes.begin(), mac.bytes.end()}}};
}

Bytes host_order(std::uint32_t value) {
  Bytes out(sizeof value);
  std::memcpy(out.data(), &value, sizeof value);
  return out;
}

static_assert(kStateEstablished == NF_CT_STATE_BIT(IP_CT_ESTABLISHED));
static_assert(kStateNew == NF_CT_STATE_BIT(IP_CT_NEW));
static_assert(kXtStateDnat == XT_CONNTRACK_STATE_DNAT);

namespace {

template <class Info>
std::optional<Info> info_of(const Xt& xt, std::string_view name) {
  Info out{};
  if (xt.target || xt.name != name || xt.info.size() < sizeof out) return std::nullopt;
  std::memcpy(&out, xt.info.data(), sizeof out);
  return out;
}

}  // namespace

std::optional<XtStates> xt_states_of(const Xt& xt) {
  if (const auto info = info_of<xt_state_info>(xt, "state")) return XtStates{info->statemask};
  const auto info = info_of<xt_conntrack_mtinfo2>(xt, "conntrack");  // revision 3 begins with it
  if (!info || info->match_flags != XT_CONNTRACK_STATE) return std::nullopt;
  return XtStates{info->state_mask, (info->invert_flags & XT_CONNTRACK_STATE) != 0};
}

std::optional<XtMark> xt_mark_of(const Xt& xt) {
  const auto info = info_of<xt_mark_mtinfo1>(xt, "mark");
  if (!info) return std::nullopt;
  return XtMark{info->mark, info->mask, info->invert != 0};
}

Verdict accept() { return {NF_ACCEPT}; }
Verdict drop() { return {NF_DROP}; }
Verdict return_verdict() { return {NFT_RETURN}; }
Verdict jump_to(std::string chain) { return {NFT_JUMP, std::move(chain)}; }
Verdict go_to(std::string chain) { return {NFT_GOTO, std::move(chain)}; }

std::optional<Cidr> address_of(const Exprs& exprs, Side side, Family family) {
  for (std::size_t at = 0; at < exprs.size(); ++at) {
    const auto* const load = std::get_if<Payload>(&exprs[at]);
    if (load == nullptr || load->base != NFT_PAYLOAD_NETWORK_HEADER) continue;
    if (load->offset != offset_of(side, family) || load->len > 16) continue;
    return read_address(exprs, at, family);
  }
  return std::nullopt;
}

std::string iifname_of(const Exprs& exprs) {
  for (std::size_t at = 0; at + 1 < exprs.size(); ++at) {
    const auto* const load = std::get_if<Meta>(&exprs[at]);
    const auto* const cmp = std::get_if<Cmp>(&exprs[at + 1]);
    if (load == nullptr || load->key != NFT_META_IIFNAME || load->set || cmp == nullptr) continue;
    return {cmp->data.begin(), std::ranges::find(cmp->data, std::uint8_t{0})};
  }
  return {};
}

std::string target_of(const Exprs& exprs) {
  for (const Expr& expr : exprs) {
    const auto* const verdict = std::get_if<Verdict>(&expr);
    if (verdict != nullptr && !verdict->chain.empty()) return verdict->chain;
  }
  return {};
}

std::string xt_comment_of(const Exprs& exprs) {
  for (const Expr& expr : exprs) {
    const auto* const xt = std::get_if<Xt>(&expr);
    if (xt != nullptr && !xt->target && !xt->comment.empty()) return xt->comment;
  }
  return {};
}

}  // namespace netlink::nf
