#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include <array>
#include <cstdio>
#include <string_view>

#include "netlink/nf/expr.h"
#include "netlink/types/error.h"

namespace netlink::nf {

namespace {

using namespace std::string_view_literals;

template <std::size_t kSize>
std::string one_of(const std::array<std::string_view, kSize>& names, std::uint32_t index) {
  return index < kSize ? std::string(names[index]) : std::to_string(index);
}

std::string hex(std::uint32_t value, const char* format = "0x%x") {
  char out[16];
  std::snprintf(out, sizeof out, format, value);
  return out;
}

constexpr std::array kMetaNames{
    "len"sv,     "protocol"sv, "priority"sv,    "mark"sv,        "iif"sv,
    "oif"sv,     "iifname"sv,  "oifname"sv,     "iiftype"sv,     "oiftype"sv,
    "skuid"sv,   "skgid"sv,    "nftrace"sv,     "rtclassid"sv,   "secmark"sv,
    "nfproto"sv, "l4proto"sv,  "bri_iifname"sv, "bri_oifname"sv, "pkttype"sv,
    "cpu"sv,     "iifgroup"sv, "oifgroup"sv,    "cgroup"sv,      "prandom"sv};
constexpr std::array kCtNames{"state"sv, "direction"sv, "status"sv, "mark"sv, "secmark"sv};
constexpr std::array kBases{"link"sv, "network"sv, "transport"sv, "inner"sv};
constexpr std::array kCompare{"eq"sv, "neq"sv, "lt"sv, "lte"sv, "gt"sv, "gte"sv};
constexpr std::array kFibResults{"unknown"sv, "oif"sv, "oifname"sv, "type"sv};

std::string verdict_name(std::int32_t code) {
  switch (code) {
    case NF_DROP:
      return "drop";
    case NF_ACCEPT:
      return "accept";
    case NFT_CONTINUE:
      return "continue";
    case NFT_RETURN:
      return "return";
    case NFT_JUMP:
      return "jump";
    case NFT_GOTO:
      return "goto";
    default:
      return std::to_string(code);
  }
}

std::string fib_flags(std::uint32_t flags) {
  constexpr std::array kNames{"saddr"sv, "daddr"sv, "mark"sv, "iif"sv, "oif"sv, "present"sv};
  std::string out;
  for (std::size_t bit = 0; bit < kNames.size(); ++bit) {
    if ((flags >> bit & 1) == 0) continue;
    out += cat(out.empty() ? "" : " . ", kNames[bit]);
  }
  return out;
}

struct Printer {
  std::string operator()(const Meta& e) const {
    const std::string key = one_of(kMetaNames, e.key);
    return e.set ? cat("meta set ", key, " with reg ", e.reg)
                 : cat("meta load ", key, " => reg ", e.reg);
  }
  std::string operator()(const Ct& e) const {
    return cat("ct load ", one_of(kCtNames, e.key), " => reg ", e.dreg);
  }
  std::string operator()(const Payload& e) const {
    return cat("payload load ", e.len, "b @ ", one_of(kBases, e.base), " header + ", e.offset,
               " => reg ", e.dreg);
  }
  std::string operator()(const Cmp& e) const {
    return cat("cmp ", one_of(kCompare, e.op), " reg ", e.sreg, " ", words(e.data));
  }
  std::string operator()(const Bitwise& e) const {
    return cat("bitwise reg ", e.reg, " = ( reg ", e.reg, " & ", words(e.mask), " ) ^ ",
               words(e.flip));
  }
  std::string operator()(const Verdict& e) const {
    return cat("immediate reg 0 ", verdict_name(e.code), e.chain.empty() ? "" : " -> ", e.chain);
  }
  std::string operator()(const Immediate& e) const {
    return cat("immediate reg ", e.dreg, " ", words(e.data));
  }
  std::string operator()(const Masq& e) const {
    return e.flags == 0 ? "masq" : cat("masq flags ", hex(e.flags));
  }
  std::string operator()(const Counter&) const { return "counter pkts 0 bytes 0"; }
  std::string operator()(const Lookup& e) const {
    return cat("lookup reg ", e.sreg, " set ", e.set, e.dreg ? cat(" dreg ", *e.dreg) : "",
               e.inverted ? " 0x1" : "");
  }
  std::string operator()(const Nat& e) const {
    return cat("nat ", e.type == NFT_NAT_SNAT ? "snat" : "dnat",
               e.family == NFPROTO_IPV6 ? " ip6" : " ip", " addr_min reg ", e.address_reg,
               e.port_reg == 0 ? "" : cat(" proto_min reg ", e.port_reg),
               e.flags == 0 ? "" : cat(" flags ", hex(e.flags)));
  }
  std::string operator()(const Fib& e) const {
    return cat("fib ", fib_flags(e.flags), " ", one_of(kFibResults, e.result), " => reg ", e.dreg);
  }
  std::string operator()(const Xt& e) const {
    return cat(e.target ? "target" : "match", " name ", e.name);
  }
  std::string operator()(const Unknown& e) const { return cat("unknown ", e.name); }
};

}  // namespace

std::string text(const Expr& expr) { return cat("[ ", std::visit(Printer{}, expr), " ]"); }

}  // namespace netlink::nf
