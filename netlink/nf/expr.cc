#include "netlink/nf/expr.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>

#include <stdexcept>

#include "netlink/types/error.h"

namespace netlink::nf {

namespace {

void put_data(Message& m, std::uint16_t attribute, const Bytes& data) {
  m.nest(attribute, [&] { m.put(NFTA_DATA_VALUE, data); });
}

struct ExprEncoder {
  Message& m;

  template <class Fill>
  void element(std::string_view name, Fill&& fill) {
    m.nest(NFTA_LIST_ELEM, [&] {
      m.put(NFTA_EXPR_NAME, name);
      m.nest(NFTA_EXPR_DATA, fill);
    });
  }

  void operator()(const Meta& e) {
    element("meta", [&] {
      m.put_be32(NFTA_META_KEY, e.key);
      m.put_be32(e.set ? NFTA_META_SREG : NFTA_META_DREG, e.reg);
    });
  }
  void operator()(const Ct& e) {
    element("ct", [&] {
      m.put_be32(NFTA_CT_KEY, e.key);
      m.put_be32(NFTA_CT_DREG, e.dreg);
    });
  }
  void operator()(const Payload& e) {
    element("payload", [&] {
      m.put_be32(NFTA_PAYLOAD_DREG, e.dreg);
      m.put_be32(NFTA_PAYLOAD_BASE, e.base);
      m.put_be32(NFTA_PAYLOAD_OFFSET, e.offset);
      m.put_be32(NFTA_PAYLOAD_LEN, e.len);
    });
  }
  void operator()(const Cmp& e) {
    element("cmp", [&] {
      m.put_be32(NFTA_CMP_SREG, e.sreg);
      m.put_be32(NFTA_CMP_OP, e.op);
      put_data(m, NFTA_CMP_DATA, e.data);
    });
  }
  void operator()(const Bitwise& e) {
    element("bitwise", [&] {
      m.put_be32(NFTA_BITWISE_SREG, e.reg);
      m.put_be32(NFTA_BITWISE_DREG, e.reg);
      m.put_be32(NFTA_BITWISE_LEN, static_cast<std::uint32_t>(e.mask.size()));
      put_data(m, NFTA_BITWISE_MASK, e.mask);
      put_data(m, NFTA_BITWISE_XOR, e.flip);
    });
  }
  void operator()(const Verdict& e) {
    element("immediate", [&] {
      m.put_be32(NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
      put_verdict(m, NFTA_IMMEDIATE_DATA, e);
    });
  }
  void operator()(const Immediate& e) {
    element("immediate", [&] {
      m.put_be32(NFTA_IMMEDIATE_DREG, e.dreg);
      put_data(m, NFTA_IMMEDIATE_DATA, e.data);
    });
  }
  void operator()(const Masq& e) {
    element("masq", [&] {
      if (e.flags != 0) m.put_be32(NFTA_MASQ_FLAGS, e.flags);
    });
  }
  void operator()(const Counter&) {
    element("counter", [&] {
      m.put_be64(NFTA_COUNTER_BYTES, 0);
      m.put_be64(NFTA_COUNTER_PACKETS, 0);
    });
  }
  void operator()(const Lookup& e) {
    element("lookup", [&] {
      m.put_be32(NFTA_LOOKUP_SREG, e.sreg);
      if (e.dreg) m.put_be32(NFTA_LOOKUP_DREG, *e.dreg);
      m.put(NFTA_LOOKUP_SET, e.set);
      if (e.inverted) m.put_be32(NFTA_LOOKUP_FLAGS, NFT_LOOKUP_F_INV);
    });
  }
  void operator()(const Nat& e) {
    element("nat", [&] {
      m.put_be32(NFTA_NAT_TYPE, e.type);
      m.put_be32(NFTA_NAT_FAMILY, e.family);
      m.put_be32(NFTA_NAT_REG_ADDR_MIN, e.address_reg);
      if (e.port_reg != 0) m.put_be32(NFTA_NAT_REG_PROTO_MIN, e.port_reg);
      if (e.flags != 0) m.put_be32(NFTA_NAT_FLAGS, e.flags);
    });
  }
  void operator()(const Fib& e) {
    element("fib", [&] {
      m.put_be32(NFTA_FIB_FLAGS, e.flags);
      m.put_be32(NFTA_FIB_RESULT, e.result);
      m.put_be32(NFTA_FIB_DREG, e.dreg);
    });
  }
  void operator()(const Xt& e) { refuse(e.name); }
  void operator()(const Unknown& e) { refuse(e.name); }

  [[noreturn]] static void refuse(const std::string& name) {
    throw std::invalid_argument(cat("the expression '", name, "' can be read, not written"));
  }
};

Bytes value_of(const Attributes& data, std::uint16_t attribute) {
  const auto view = data.nested(attribute).find(NFTA_DATA_VALUE).value;
  return {view.begin(), view.end()};
}

Expr decode_immediate(const Attributes& data) {
  const std::uint32_t dreg = data.be32(NFTA_IMMEDIATE_DREG);
  if (dreg != NFT_REG_VERDICT) return Immediate{value_of(data, NFTA_IMMEDIATE_DATA), dreg};
  return verdict_in(data.nested(NFTA_IMMEDIATE_DATA)).value_or(Verdict{});
}

Expr decode_meta(const Attributes& data) {
  const std::uint32_t key = data.be32(NFTA_META_KEY);
  if (!data.has(NFTA_META_SREG)) return Meta{key, data.be32(NFTA_META_DREG), false};
  return Meta{key, data.be32(NFTA_META_SREG), true};
}

// The shape that Bitwise has room for; shifts and the like stay unknown.
Expr decode_bitwise(const Attributes& data) {
  Bitwise e{value_of(data, NFTA_BITWISE_MASK), value_of(data, NFTA_BITWISE_XOR),
            data.be32(NFTA_BITWISE_DREG)};
  if (data.be32(NFTA_BITWISE_OP) != NFT_BITWISE_BOOL || e.mask.size() != e.flip.size() ||
      e.reg != data.be32(NFTA_BITWISE_SREG)) {
    return Unknown{"bitwise"};
  }
  return e;
}

Expr decode_lookup(const Attributes& data) {
  Lookup e{data.text(NFTA_LOOKUP_SET), data.be32(NFTA_LOOKUP_SREG)};
  if (data.has(NFTA_LOOKUP_DREG)) e.dreg = data.be32(NFTA_LOOKUP_DREG);
  e.inverted = (data.be32(NFTA_LOOKUP_FLAGS) & NFT_LOOKUP_F_INV) != 0;
  return e;
}

Bytes bytes_of(const Attributes& data, std::uint16_t attribute) {
  const View view = data.find(attribute).value;
  return {view.begin(), view.end()};
}

Expr decode_match(const Attributes& data) {
  Xt e{false, data.text(NFTA_MATCH_NAME)};
  e.revision = data.be32(NFTA_MATCH_REV);
  e.info = bytes_of(data, NFTA_MATCH_INFO);
  // struct xt_comment_info is the text alone.
  if (e.name == "comment") e.comment = data.text(NFTA_MATCH_INFO);
  return e;
}

}  // namespace

void put_verdict(Message& m, std::uint16_t attribute, const Verdict& verdict) {
  m.nest(attribute, [&] {
    m.nest(NFTA_DATA_VERDICT, [&] {
      m.put_be32(NFTA_VERDICT_CODE, static_cast<std::uint32_t>(verdict.code));
      if (!verdict.chain.empty()) m.put(NFTA_VERDICT_CHAIN, verdict.chain);
    });
  });
}

std::optional<Verdict> verdict_in(const Attributes& data) {
  const Attributes verdict = data.nested(NFTA_DATA_VERDICT);
  if (verdict.bytes().empty()) return std::nullopt;
  return Verdict{static_cast<std::int32_t>(verdict.be32(NFTA_VERDICT_CODE)),
                 verdict.text(NFTA_VERDICT_CHAIN)};
}

void encode(Message& message, const Expr& expr) { std::visit(ExprEncoder{message}, expr); }

Expr decode_expr(const Attributes& element) {
  const std::string_view name = element.find(NFTA_EXPR_NAME).text();
  const Attributes d = element.nested(NFTA_EXPR_DATA);
  if (name == "meta") return decode_meta(d);
  if (name == "ct" && !d.has(NFTA_CT_SREG) && !d.has(NFTA_CT_DIRECTION)) {
    return Ct{d.be32(NFTA_CT_KEY), d.be32(NFTA_CT_DREG)};
  }
  if (name == "payload" && !d.has(NFTA_PAYLOAD_SREG)) {
    return Payload{d.be32(NFTA_PAYLOAD_BASE), d.be32(NFTA_PAYLOAD_OFFSET), d.be32(NFTA_PAYLOAD_LEN),
                   d.be32(NFTA_PAYLOAD_DREG)};
  }
  if (name == "cmp") {
    return Cmp{d.be32(NFTA_CMP_OP), value_of(d, NFTA_CMP_DATA), d.be32(NFTA_CMP_SREG)};
  }
  if (name == "bitwise") return decode_bitwise(d);
  if (name == "immediate") return decode_immediate(d);
  if (name == "masq" && !d.has(NFTA_MASQ_REG_PROTO_MIN)) {
    return Masq{d.be32(NFTA_MASQ_FLAGS)};
  }
  if (name == "counter") return Counter{};
  if (name == "lookup") return decode_lookup(d);
  if (name == "nat") {
    // The kernel itself sets these two where there are registers: nft_nat_init().
    const std::uint32_t implied = NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED;
    return Nat{d.be32(NFTA_NAT_TYPE), d.be32(NFTA_NAT_FAMILY), d.be32(NFTA_NAT_REG_ADDR_MIN),
               d.be32(NFTA_NAT_REG_PROTO_MIN), d.be32(NFTA_NAT_FLAGS) & ~implied};
  }
  if (name == "fib") {
    return Fib{d.be32(NFTA_FIB_RESULT), d.be32(NFTA_FIB_FLAGS), d.be32(NFTA_FIB_DREG)};
  }
  if (name == "match") return decode_match(d);
  if (name == "target") {
    return Xt{
        true, d.text(NFTA_TARGET_NAME), {}, d.be32(NFTA_TARGET_REV), bytes_of(d, NFTA_TARGET_INFO)};
  }
  return Unknown{std::string(name)};
}

}  // namespace netlink::nf
