#include "netlink/route/policy_rule.h"

#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "netlink/types/error.h"

namespace netlink {

namespace {

// The attributes that the kernel dumps of each rule (fib_nl_fill_rule() in net/core/fib_rules.c),
// and `from`.
constexpr std::uint16_t kPlain[] = {FRA_SRC, FRA_TABLE, FRA_PRIORITY, FRA_PROTOCOL,
                                    FRA_SUPPRESS_PREFIXLEN};

Message message_of(unsigned type, unsigned flags, const PolicyRule& rule) {
  fib_rule_hdr head{};
  head.family = rule.family == Family::kIpv4 ? AF_INET : AF_INET6;
  head.action = FR_ACT_TO_TBL;
  head.table = static_cast<std::uint8_t>(rule.table < 256 ? rule.table : RT_TABLE_UNSPEC);
  if (rule.from) head.src_len = static_cast<std::uint8_t>(rule.from->prefix);
  Message message(type, flags | NLM_F_ACK, head);
  if (rule.from) message.put(FRA_SRC, rule.from->network().ip);
  message.put_u32(FRA_TABLE, rule.table);
  if (rule.priority != 0) message.put_u32(FRA_PRIORITY, rule.priority);
  if (rule.protocol != 0) message.put_u8(FRA_PROTOCOL, rule.protocol);
  return message;
}

std::string text_of(const PolicyRule& rule) {
  return cat("rule from ", rule.from ? rule.from->str() : "all", " lookup ", rule.table);
}

}  // namespace

PolicyRule decode_policy_rule(const Reply& reply) {
  const auto head = reply.fixed<fib_rule_hdr>();
  PolicyRule out{.family = head.family == AF_INET ? Family::kIpv4 : Family::kIpv6,
                 .table = head.table};
  out.is_plain = head.action == FR_ACT_TO_TBL && head.tos == 0 && head.dst_len == 0 &&
                 (head.flags & FIB_RULE_INVERT) == 0;
  for (const Attribute& one : reply.attributes(sizeof head)) {
    const auto [data, size] = std::pair(one.value.data(), one.value.size());
    if (one.type == FRA_SRC && (size == 4 || size == 16)) {
      out.from = Cidr::from_bytes(data, size, head.src_len);
    }
    if (one.type == FRA_TABLE) out.table = one.u32();
    if (one.type == FRA_PRIORITY) out.priority = one.u32();
    if (one.type == FRA_PROTOCOL) out.protocol = one.u8();
    const bool is_known = std::ranges::find(kPlain, one.type) != std::end(kPlain);
    const bool is_no_limit = one.type != FRA_SUPPRESS_PREFIXLEN || one.u32() == ~0U;
    out.is_plain = out.is_plain && is_known && is_no_limit;
  }
  return out;
}

RouteRequest add(const PolicyRule& rule) {
  return {cat("add ", text_of(rule)), message_of(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, rule)};
}

RouteRequest remove(const PolicyRule& rule) {
  return {cat("remove ", text_of(rule)), message_of(RTM_DELRULE, 0, rule), {ENOENT, ESRCH}};
}

}  // namespace netlink
