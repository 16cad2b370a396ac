#include "netlink/route/routing_policy.h"

#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "netlink/types/error.h"

namespace netlink {

namespace {

using Action = PolicyStep::Action;

Action action_of(std::uint8_t number) {
  switch (number) {
    case FR_ACT_GOTO:
      return Action::kGoto;
    case FR_ACT_NOP:
      return Action::kNop;
    case FR_ACT_BLACKHOLE:
      return Action::kBlackhole;
    case FR_ACT_UNREACHABLE:
      return Action::kUnreachable;
    case FR_ACT_PROHIBIT:
      return Action::kProhibit;
    default:
      return Action::kTable;
  }
}

// Numbers, in the order of the kernel's dump.
bool decode_number(PolicyStep& out, const Attribute& one) {
  const std::pair<std::uint16_t, std::uint32_t*> kNumbers[] = {{FRA_TABLE, &out.table},
                                                               {FRA_PRIORITY, &out.priority},
                                                               {FRA_GOTO, &out.target},
                                                               {FRA_FWMARK, &out.mark},
                                                               {FRA_FWMASK, &out.mask}};
  for (const auto& [type, field] : kNumbers) {
    if (one.type != type) continue;
    *field = one.u32();
    return true;
  }
  if (one.type == FRA_SUPPRESS_PREFIXLEN) out.suppress_prefix = static_cast<int>(one.u32());
  if (one.type == FRA_IP_PROTO) out.protocol = one.u8();
  return one.type == FRA_SUPPRESS_PREFIXLEN || one.type == FRA_IP_PROTO;
}

// FRA_SPORT_MASK and FRA_DPORT_MASK of Linux 6.15, which newer headers have.
constexpr std::uint16_t kSourcePortMask = 28, kPortMask = 29, kWholePort = 0xffff;

// Whether it was one, or a mask by which a port counts as a whole.
bool decode_ports(PolicyStep& out, const Attribute& one) {
  if (one.type == kSourcePortMask || one.type == kPortMask)
    return one.as<std::uint16_t>() == kWholePort;
  if (one.value.size() != sizeof(fib_rule_port_range)) return false;
  const bool is_source = one.type == FRA_SPORT_RANGE;
  if (!is_source && one.type != FRA_DPORT_RANGE) return false;
  const auto range = one.as<fib_rule_port_range>();
  (is_source ? out.source_ports : out.ports) = {range.start, range.end};
  return true;
}

void decode_attribute(PolicyStep& out, const fib_rule_hdr& head, const Attribute& one) {
  const auto [data, size] = std::pair(one.value.data(), one.value.size());
  const bool is_ip = size == 4 || size == 16;
  if (decode_number(out, one) || decode_ports(out, one) || one.type == FRA_PROTOCOL) return;
  if (one.type == FRA_SRC && is_ip) {
    out.from = Cidr::from_bytes(data, size, head.src_len);
  } else if (one.type == FRA_DST && is_ip) {
    out.to = Cidr::from_bytes(data, size, head.dst_len);
  } else if (one.type == FRA_IIFNAME) {
    out.in = one.text();
  } else if (one.type == FRA_OIFNAME) {
    out.out = one.text();
  } else if (one.type == FRA_UID_RANGE && size == sizeof(fib_rule_uid_range)) {
    const auto range = one.as<fib_rule_uid_range>();
    out.users = {range.start, range.end};
  } else {
    out.is_partly_known = true;
  }
}

const char* name_of_protocol(std::uint8_t protocol) {
  switch (protocol) {
    case IPPROTO_ICMP:
      return "icmp";
    case IPPROTO_TCP:
      return "tcp";
    case IPPROTO_UDP:
      return "udp";
    case IPPROTO_ICMPV6:
      return "ipv6-icmp";
    default:
      return nullptr;
  }
}

// As ip-rule(8) has them: "dport 80", "sport 80-90".
std::string text_of(const char* side, const PolicyStep::Ports& ports) {
  const auto [first, last] = ports;
  return cat(" ", side, " ", first, first == last ? "" : cat("-", last));
}

bool has(const PolicyStep::Ports& ports, std::uint16_t port) {
  return port != 0 && ports.first <= port && port <= ports.second;
}

std::string hex(std::uint32_t number) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (; number != 0 || out.empty(); number /= 16) out.insert(out.begin(), kDigits[number % 16]);
  return "0x" + out;
}

std::string name_of_table(std::uint32_t table) {
  if (table == RT_TABLE_MAIN) return "main";
  if (table == RT_TABLE_LOCAL) return "local";
  return table == RT_TABLE_DEFAULT ? "default" : cat(table);
}

std::string text_of_action(const PolicyStep& one) {
  switch (one.action) {
    case Action::kTable:
      return cat("lookup ", name_of_table(one.table));
    case Action::kGoto:
      return cat("goto ", one.target);
    case Action::kNop:
      return "nop";
    case Action::kBlackhole:
      return "blackhole";
    case Action::kUnreachable:
      return "unreachable";
    case Action::kProhibit:
      return "prohibit";
  }
  return {};
}

// The user of probes is root, and pods' packets that are forwarded have none, which is as good as 0
// (flowi_init_output() sets 0 for input, fib_uid_range_match()).
bool selects(const PolicyStep& one, const RoutedPacket& packet) {
  const PacketPath& path = packet.path;
  const bool is_in = (!one.from || (path.source && one.from->contains(*path.source))) &&
                     (!one.to || one.to->contains(path.destination)) &&
                     (one.in.empty() || one.in == (packet.in.empty() ? "lo" : packet.in)) &&
                     one.out.empty() && ((path.mark ^ one.mark) & one.mask) == 0 &&
                     (!one.users || one.users->first == 0) &&
                     (one.protocol == 0 || one.protocol == packet.protocol) &&
                     (!one.source_ports || has(*one.source_ports, packet.source_port)) &&
                     (!one.ports || has(*one.ports, packet.port));
  return is_in != one.is_inverted && !one.is_partly_known;
}

std::optional<LinkRoute> route_in(std::uint32_t table, const std::vector<LinkRoute>& routes,
                                  const Ip& to) {
  std::optional<LinkRoute> out;
  for (const LinkRoute& one : routes) {
    if (one.table != table || !one.dst.contains(to)) continue;
    if (out && (out->dst.prefix > one.dst.prefix ||
                (out->dst.prefix == one.dst.prefix && out->priority <= one.priority))) {
      continue;
    }
    out = one;
  }
  return out;
}

}  // namespace

std::string PolicyStep::str() const {
  std::string text = cat(is_inverted ? "not " : "", "from ", from ? from->str() : "all");
  if (to) text += cat(" to ", to->str());
  if (mask != 0) text += cat(" fwmark ", hex(mark), mask == ~0U ? "" : cat("/", hex(mask)));
  if (!in.empty()) text += cat(" iif ", in);
  if (!out.empty()) text += cat(" oif ", out);
  if (users) text += cat(" uidrange ", users->first, "-", users->second);
  if (protocol != 0) {
    const char* const name = name_of_protocol(protocol);
    text += cat(" ipproto ", name != nullptr ? name : cat(int{protocol}));
  }
  if (source_ports) text += text_of("sport", *source_ports);
  if (ports) text += text_of("dport", *ports);
  const bool suppresses = action == Action::kTable && suppress_prefix >= 0;
  return cat(text, " ", text_of_action(*this),
             suppresses ? cat(" suppress_prefixlength ", suppress_prefix) : std::string());
}

PolicyStep decode_policy_step(const Reply& reply) {
  const auto head = reply.fixed<fib_rule_hdr>();
  PolicyStep out{.action = action_of(head.action), .table = head.table};
  out.is_inverted = (head.flags & FIB_RULE_INVERT) != 0;
  out.is_partly_known = head.tos != 0;
  for (const Attribute& one : reply.attributes(sizeof head)) decode_attribute(out, head, one);
  return out;
}

std::vector<PolicyStep> policy_of(RouteSocket& socket, Family family) {
  rtmsg head{};  // as long as fib_rule_hdr
  head.rtm_family = static_cast<unsigned char>(family == Family::kIpv4 ? AF_INET : AF_INET6);
  std::vector<PolicyStep> out;
  socket.dump("list rules", Message(RTM_GETRULE, 0, head), [&out](const Reply& reply) {
    if (reply.type() == RTM_NEWRULE) out.push_back(decode_policy_step(reply));
  });
  return out;
}

Decision decide(const std::vector<PolicyStep>& policy, const std::vector<LinkRoute>& routes,
                const RoutedPacket& packet) {
  Decision out;
  std::uint32_t from = 0;
  for (const PolicyStep& one : policy) {
    if (one.priority < from || !selects(one, packet)) continue;
    if (one.action == Action::kGoto) {
      from = std::max(one.target, one.priority);
      if (!out.jump) out.jump = one;
    }
    if (one.action == Action::kGoto || one.action == Action::kNop) continue;
    if (one.action != Action::kTable) {
      out.rule = one;
      return out;
    }
    auto found = route_in(one.table, routes, packet.path.destination);
    if (!found) continue;
    if (found->type == RTN_THROW) {
      out.thrown = std::move(found);
      continue;
    }
    const bool is_refusal = !refusal_of(*found).empty();
    if (!is_refusal && static_cast<int>(found->dst.prefix) <= one.suppress_prefix) {
      if (!out.suppressor) out.suppressor = one;
      continue;
    }
    out.rule = one;
    out.route = std::move(found);
    return out;
  }
  return out;
}

}  // namespace netlink
