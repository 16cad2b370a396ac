#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "netlink/nf/nfnetlink.h"

/// The expressions a rule is made of: one struct each, with encode(), and text() in the words of
/// `nft --debug=netlink`. Numbers are those of linux/netfilter/nf_tables.h; registers 1 to 4 hold
/// 16 bytes each, 8 to 23 are the same memory in pieces of 4.
namespace netlink::nf {

/// Loads a fact about the packet (NFT_META_*), or sets one from a register.
struct Meta {
  std::uint32_t key = 0;
  std::uint32_t reg = 1;
  bool set = false;
  bool operator==(const Meta&) const = default;
};

struct Ct {
  std::uint32_t key = 0;  ///< NFT_CT_*
  std::uint32_t dreg = 1;
  bool operator==(const Ct&) const = default;
};

/// Loads len bytes of a header (NFT_PAYLOAD_*).
struct Payload {
  std::uint32_t base = 0;
  std::uint32_t offset = 0;
  std::uint32_t len = 0;
  std::uint32_t dreg = 1;
  bool operator==(const Payload&) const = default;
};

/// Ends the rule unless the register compares so with data (NFT_CMP_*).
struct Cmp {
  std::uint32_t op = 0;
  Bytes data;
  std::uint32_t sreg = 1;
  bool operator==(const Cmp&) const = default;
};

/// reg = (reg & mask) ^ flip; both as long as each other.
struct Bitwise {
  Bytes mask;
  Bytes flip;
  std::uint32_t reg = 1;
  bool operator==(const Bitwise&) const = default;
};

/// The packet's verdict: NF_ACCEPT, NF_DROP, or NFT_RETURN, NFT_JUMP, NFT_GOTO.
struct Verdict {
  std::int32_t code = 0;
  std::string chain = {};  ///< for jump and goto
  bool operator==(const Verdict&) const = default;
};

struct Immediate {
  Bytes data;
  std::uint32_t dreg = 1;
  bool operator==(const Immediate&) const = default;
};

struct Masq {
  std::uint32_t flags = 0;  ///< NF_NAT_RANGE_*
  bool operator==(const Masq&) const = default;
};

/// Counts what comes by; two counters are equal whatever they have counted.
struct Counter {
  bool operator==(const Counter&) const = default;
};

/// Asks a set, or with dreg a map.
struct Lookup {
  std::string set;
  std::uint32_t sreg = 1;
  std::optional<std::uint32_t> dreg = {};
  bool inverted = false;
  bool operator==(const Lookup&) const = default;
};

struct Nat {
  std::uint32_t type = 0;    ///< NFT_NAT_SNAT or NFT_NAT_DNAT
  std::uint32_t family = 0;  ///< NFPROTO_IPV4 or NFPROTO_IPV6
  std::uint32_t address_reg = 1;
  std::uint32_t port_reg = 0;  ///< 0: the port stays
  std::uint32_t flags = 0;     ///< NF_NAT_RANGE_*, without those that the registers imply
  bool operator==(const Nat&) const = default;
};

/// Loads what the routing table says of an address (NFT_FIB_RESULT_*, NFTA_FIB_F_*).
struct Fib {
  std::uint32_t result = 0;
  std::uint32_t flags = 0;
  std::uint32_t dreg = 1;
  bool operator==(const Fib&) const = default;
};

/// An iptables match or target in an nf_tables rule: only ever read here.
struct Xt {
  bool target = false;
  std::string name;
  std::string comment = {};    ///< of the match "comment"
  std::uint32_t revision = 0;  ///< tells which struct info is
  Bytes info = {};             ///< the struct of linux/netfilter/xt_NAME.h
  bool operator==(const Xt&) const = default;
};

/// Anything else that was read. Never equal to what this code writes, and not to be written.
struct Unknown {
  std::string name;
  bool operator==(const Unknown&) const = default;
};

using Expr = std::variant<Meta, Ct, Payload, Cmp, Bitwise, Verdict, Immediate, Masq, Counter,
                          Lookup, Nat, Fib, Xt, Unknown>;
using Exprs = std::vector<Expr>;

/// Puts the expression as one NFTA_LIST_ELEM. \throws std::invalid_argument for Xt and Unknown.
void encode(Message& message, const Expr& expr);

/// A verdict as data, of an expression or an element: NFTA_DATA_VERDICT inside the attribute.
void put_verdict(Message& message, std::uint16_t attribute, const Verdict& verdict);
/// The reverse; nothing where the data is no verdict.
std::optional<Verdict> verdict_in(const Attributes& data);

/// The content of one NFTA_LIST_ELEM.
Expr decode_expr(const Attributes& element);

/// "[ cmp eq reg 1 0x00000002 ]".
std::string text(const Expr& expr);

}  // namespace netlink::nf
