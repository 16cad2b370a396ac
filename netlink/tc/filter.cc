#include "netlink/tc/filter.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <linux/rtnetlink.h>
#include <linux/tc_act/tc_mirred.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "netlink/types/error.h"

namespace netlink::tc {

namespace {

// The offset of the address in the headers of RFC 791 and RFC 8200.
int offset_of(End end, bool is_v4) {
  if (end == End::kSource) return is_v4 ? 12 : 8;
  return is_v4 ? 16 : 24;
}

tcmsg head_of(const Link& link, const FilterGroup& group, std::uint16_t protocol) {
  tcmsg head{};
  head.tcm_ifindex = link.index;
  head.tcm_parent = static_cast<std::uint32_t>(group.parent);
  head.tcm_info = std::uint32_t{group.priority} << 16 | ::htons(protocol);
  return head;
}

// A selector is a header and as many keys as it says.
Bytes selector_of(const std::vector<Key>& keys) {
  tc_u32_sel selector{};
  selector.flags = TC_U32_TERMINAL;
  selector.nkeys = static_cast<unsigned char>(keys.size());
  Bytes out(sizeof selector + keys.size() * sizeof(tc_u32_key));
  std::memcpy(out.data(), &selector, sizeof selector);
  std::uint8_t* at = out.data() + sizeof selector;
  for (const Key& key : keys) {
    tc_u32_key wire{};
    wire.val = ::htonl(key.value);
    wire.mask = ::htonl(key.mask);
    wire.off = key.offset;
    std::memcpy(at, &wire, sizeof wire);
    at += sizeof wire;
  }
  return out;
}

void put_u32_filter(Message& message, const std::vector<Key>& keys, Handle flow) {
  message.put_u32(TCA_U32_CLASSID, static_cast<std::uint32_t>(flow));
  message.put(TCA_U32_SEL, selector_of(keys));
}

void put_redirect(Message& message, int to_link) {
  tc_mirred parameters{};
  parameters.action = TC_ACT_STOLEN;
  parameters.eaction = TCA_EGRESS_REDIR;
  parameters.ifindex = static_cast<std::uint32_t>(to_link);
  message.nest(TCA_U32_ACT, [&] {
    message.nest(1, [&] {  // the first action
      message.put(TCA_ACT_KIND, "mirred");
      message.nest(TCA_ACT_OPTIONS, [&] { message.put_struct(TCA_MIRRED_PARMS, parameters); });
    });
  });
}

RouteRequest put(const Link& link, const Redirect& redirect, const char* verb, unsigned flags) {
  tcmsg head = head_of(link, {redirect.parent, redirect.priority}, ETH_P_ALL);
  head.tcm_handle = static_cast<std::uint32_t>(redirect.handle);
  Message message(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_ACK | flags, head);
  message.put(TCA_KIND, "u32");
  message.nest(TCA_OPTIONS, [&] {
    put_u32_filter(message, {Key{}}, tc::handle(1, 1));
    put_redirect(message, redirect.to_link);
  });
  return {.operation = cat(verb, " filter from '", link.name, "' to link #", redirect.to_link),
          .message = std::move(message),
          .module = "cls_u32"};
}

RouteRequest put(const Link& link, const Program& program, const char* verb, unsigned flags) {
  tcmsg head = head_of(link, {program.parent, program.priority}, ETH_P_ALL);
  head.tcm_handle = static_cast<std::uint32_t>(program.handle);
  Message message(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_ACK | flags, head);
  message.put(TCA_KIND, "bpf");
  message.nest(TCA_OPTIONS, [&] {
    message.put_u32(TCA_BPF_FD, static_cast<std::uint32_t>(program.fd));
    message.put(TCA_BPF_NAME, program.name);
    message.put_u32(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
  });
  return {.operation = cat(verb, " program '", program.name, "' of '", link.name, "'"),
          .message = std::move(message),
          .module = "cls_bpf"};
}

std::vector<Key> decode_selector(View selector) {
  std::vector<Key> out;
  auto count = read_struct<tc_u32_sel>(selector).nkeys;
  for (View rest = selector; count > 0; --count) {
    rest = rest.subspan(out.empty() ? sizeof(tc_u32_sel) : sizeof(tc_u32_key));
    if (rest.size() < sizeof(tc_u32_key)) break;
    const auto wire = read_struct<tc_u32_key>(rest);
    out.push_back({::ntohl(wire.val), ::ntohl(wire.mask), wire.off});
  }
  return out;
}

// The actions that are a mirred.
std::vector<Mirred> decode_mirreds(const Attributes& actions) {
  std::vector<Mirred> out;
  for (const Attribute& action : actions) {
    const Attributes parts = action.nested();
    const Attribute found = parts.nested(TCA_ACT_OPTIONS).find(TCA_MIRRED_PARMS);
    const auto wire = found.as<tc_mirred>();
    if (parts.find(TCA_ACT_KIND).text() != "mirred" || found.value.size() < sizeof wire) continue;
    out.push_back({static_cast<int>(wire.ifindex), wire.eaction == TCA_EGRESS_REDIR, wire.action});
  }
  return out;
}

// False where it is a table, which has no selector.
bool decode_u32(FilterState& out, const Attributes& options) {
  out.flow = Handle{options.find(TCA_U32_CLASSID).u32()};
  out.mirreds = decode_mirreds(options.nested(TCA_U32_ACT));
  out.keys = decode_selector(options.find(TCA_U32_SEL).value);
  return options.find(TCA_U32_SEL).type != 0;
}

void decode_program(FilterState& out, const Attributes& options) {
  out.program = options.text(TCA_BPF_NAME);
  out.program_id = options.find(TCA_BPF_ID).u32();
  out.direct_action = (options.find(TCA_BPF_FLAGS).u32() & TCA_BPF_FLAG_ACT_DIRECT) != 0;
}

}  // namespace

std::vector<Key> keys_of(const Cidr& network, End end) {
  const Ip first = network.network().ip;
  const Ip mask = Ip::any(first.family()).broadcast(0).masked(network.prefix);
  const auto word = [](const Ip& ip, std::size_t i) {
    std::uint32_t out;
    std::memcpy(&out, ip.data() + i, sizeof out);
    return ::ntohl(out);
  };
  const int start = offset_of(end, first.is_v4());
  std::vector<Key> out;
  for (std::size_t i = 0; i < first.size(); i += 4) {
    const std::uint32_t bits = word(mask, i);
    if (bits != 0) out.push_back({word(first, i), bits, start + static_cast<int>(i)});
  }
  if (out.empty()) out.emplace_back();  // a filter has a key; this one matches everything
  return out;
}

RouteRequest add(const Link& link, const Redirect& redirect) {
  return put(link, redirect, "add", NLM_F_EXCL);
}
RouteRequest replace(const Link& link, const Redirect& redirect) {
  return put(link, redirect, "replace", NLM_F_REPLACE);
}

RouteRequest add(const Link& link, const ToClass& filter) {
  const std::uint16_t protocol = filter.network.ip.is_v4() ? ETH_P_IP : ETH_P_IPV6;
  Message message(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK,
                  head_of(link, {filter.parent, filter.priority}, protocol));
  message.put(TCA_KIND, "u32");
  message.nest(TCA_OPTIONS,
               [&] { put_u32_filter(message, keys_of(filter.network, filter.end), filter.flow); });
  return {.operation = cat("add filter ", filter.network.str(), " to class ", str(filter.flow),
                           " of '", link.name, "'"),
          .message = std::move(message),
          .module = "cls_u32"};
}

RouteRequest add(const Link& link, const Program& program) {
  return put(link, program, "add", NLM_F_EXCL);
}
RouteRequest replace(const Link& link, const Program& program) {
  return put(link, program, "replace", NLM_F_REPLACE);
}

RouteRequest remove(const Link& link, const Program& program) {
  tcmsg head = head_of(link, {program.parent, program.priority}, ETH_P_ALL);
  head.tcm_handle = static_cast<std::uint32_t>(program.handle);
  Message message(RTM_DELTFILTER, NLM_F_ACK, head);
  message.put(TCA_KIND, "bpf");
  return {cat("remove program '", program.name, "' of '", link.name, "'"),
          std::move(message),
          {ENOENT, EINVAL, ENODEV}};
}

RouteRequest remove(const Link& link, const FilterGroup& group) {
  // EINVAL is a link without such a qdisc (__tcf_qdisc_find() in net/sched/cls_api.c).
  return {cat("remove filters of '", link.name, "'"),
          Message(RTM_DELTFILTER, NLM_F_ACK, head_of(link, group, 0)),
          {ENOENT, EINVAL, ENODEV}};
}

bool FilterState::redirects_all_to(int to) const {
  const bool all = kind == "u32" && protocol == ETH_P_ALL && !keys.empty() &&
                   std::ranges::all_of(keys, [](const Key& k) { return k.mask == 0; });
  return all && !mirreds.empty() && mirreds.front().redirect && mirreds.front().to_link == to;
}

std::optional<FilterState> decode_filter(const Reply& reply) {
  const auto head = reply.fixed<tcmsg>();
  FilterState out{.link = head.tcm_ifindex,
                  .parent = Handle{head.tcm_parent},
                  .handle = Handle{head.tcm_handle},
                  .priority = static_cast<std::uint16_t>(head.tcm_info >> 16),
                  .protocol = ::ntohs(static_cast<std::uint16_t>(head.tcm_info & 0xFFFFU))};
  const Attributes attributes = reply.attributes(sizeof head);
  const Attributes options = attributes.nested(TCA_OPTIONS);
  out.kind = attributes.text(TCA_KIND);
  bool is_filter = head.tcm_handle != 0;
  if (out.kind == "u32") is_filter = decode_u32(out, options);
  if (out.kind == "bpf") decode_program(out, options);
  if (!is_filter) return std::nullopt;
  return out;
}

}  // namespace netlink::tc
