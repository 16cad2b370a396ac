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

// Where the addresses are in the headers of RFC 791 and RFC 8200.
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
std::vector<char> selector_of(const std::vector<Key>& keys) {
  tc_u32_sel selector{};
  selector.flags = TC_U32_TERMINAL;
  selector.nkeys = static_cast<unsigned char>(keys.size());
  std::vector<char> out(sizeof selector + keys.size() * sizeof(tc_u32_key));
  std::memcpy(out.data(), &selector, sizeof selector);
  char* at = out.data() + sizeof selector;
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
  const auto selector = selector_of(keys);
  message.put_u32(TCA_U32_CLASSID, static_cast<std::uint32_t>(flow));
  message.put(TCA_U32_SEL, selector.data(), selector.size());
}

void put_redirect(Message& message, int to_link) {
  tc_mirred parameters{};
  parameters.action = TC_ACT_STOLEN;
  parameters.eaction = TCA_EGRESS_REDIR;
  parameters.ifindex = static_cast<std::uint32_t>(to_link);
  message.nest(TCA_U32_ACT, [&] {
    message.nest(1, [&] {  // the first action
      message.put(TCA_ACT_KIND, "mirred");
      message.nest(TCA_ACT_OPTIONS,
                   [&] { message.put(TCA_MIRRED_PARMS, &parameters, sizeof parameters); });
    });
  });
}

Request put(const Link& link, const Redirect& redirect, const char* verb, unsigned flags) {
  tcmsg head = head_of(link, {redirect.parent, redirect.priority}, ETH_P_ALL);
  head.tcm_handle = static_cast<std::uint32_t>(redirect.handle);
  Message message(RTM_NEWTFILTER, static_cast<std::uint16_t>(NLM_F_CREATE | NLM_F_ACK | flags),
                  head);
  message.put(TCA_KIND, "u32");
  message.nest(TCA_OPTIONS, [&] {
    put_u32_filter(message, {Key{}}, tc::handle(1, 1));
    put_redirect(message, redirect.to_link);
  });
  return {cat(verb, " filter from '", link.name, "' to link #", redirect.to_link),
          std::move(message)};
}

Request put(const Link& link, const Program& program, const char* verb, unsigned flags) {
  tcmsg head = head_of(link, {program.parent, program.priority}, ETH_P_ALL);
  head.tcm_handle = static_cast<std::uint32_t>(program.handle);
  Message message(RTM_NEWTFILTER, static_cast<std::uint16_t>(NLM_F_CREATE | NLM_F_ACK | flags),
                  head);
  message.put(TCA_KIND, "bpf");
  message.nest(TCA_OPTIONS, [&] {
    message.put_u32(TCA_BPF_FD, static_cast<std::uint32_t>(program.fd));
    message.put(TCA_BPF_NAME, program.name);
    message.put_u32(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT);
  });
  return {cat(verb, " program '", program.name, "' of '", link.name, "'"), std::move(message)};
}

std::vector<Key> decode_selector(const void* data, std::size_t size) {
  tc_u32_sel selector;
  std::vector<Key> out;
  if (size < sizeof selector) return out;
  std::memcpy(&selector, data, sizeof selector);
  const std::size_t count =
      std::min<std::size_t>(selector.nkeys, (size - sizeof selector) / sizeof(tc_u32_key));
  for (std::size_t i = 0; i < count; ++i) {
    tc_u32_key wire;
    std::memcpy(&wire, static_cast<const char*>(data) + sizeof selector + i * sizeof wire,
                sizeof wire);
    out.push_back({::ntohl(wire.val), ::ntohl(wire.mask), wire.off});
  }
  return out;
}

std::optional<Mirred> decode_mirred(const void* data, std::size_t size) {
  std::string kind;
  std::optional<Mirred> out;
  const auto parameters = [&out](std::uint16_t type, const void* value, std::size_t length) {
    tc_mirred wire;
    if (type != TCA_MIRRED_PARMS || length < sizeof wire) return;
    std::memcpy(&wire, value, sizeof wire);
    out = {static_cast<int>(wire.ifindex), wire.eaction == TCA_EGRESS_REDIR, wire.action};
  };
  // The kernel sends the kind before its options.
  nested(data, size, [&](std::uint16_t type, const void* value, std::size_t length) {
    if (type == TCA_ACT_KIND) kind = get_text(value, length);
    if (type == TCA_ACT_OPTIONS && kind == "mirred") nested(value, length, parameters);
  });
  return out;
}

// False where it is a table, which has no selector.
bool decode_u32(FilterState& out, const void* data, std::size_t size) {
  bool is_filter = false;
  const auto action = [&out](std::uint16_t /*order*/, const void* value, std::size_t length) {
    if (const auto mirred = decode_mirred(value, length)) out.mirreds.push_back(*mirred);
  };
  nested(data, size, [&](std::uint16_t type, const void* value, std::size_t length) {
    if (type == TCA_U32_CLASSID) out.flow = Handle{get_u32(value, length)};
    if (type == TCA_U32_ACT) nested(value, length, action);
    if (type != TCA_U32_SEL) return;
    is_filter = true;
    out.keys = decode_selector(value, length);
  });
  return is_filter;
}

void decode_program(FilterState& out, const void* data, std::size_t size) {
  nested(data, size, [&](std::uint16_t type, const void* value, std::size_t length) {
    if (type == TCA_BPF_NAME) out.program = get_text(value, length);
    if (type == TCA_BPF_ID) out.program_id = get_u32(value, length);
    if (type == TCA_BPF_FLAGS)
      out.direct_action = (get_u32(value, length) & TCA_BPF_FLAG_ACT_DIRECT) != 0;
  });
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

Request add(const Link& link, const Redirect& redirect) {
  return put(link, redirect, "add", NLM_F_EXCL);
}
Request replace(const Link& link, const Redirect& redirect) {
  return put(link, redirect, "replace", NLM_F_REPLACE);
}

Request add(const Link& link, const ToClass& filter) {
  const std::uint16_t protocol = filter.network.ip.is_v4() ? ETH_P_IP : ETH_P_IPV6;
  Message message(RTM_NEWTFILTER, NLM_F_CREATE | NLM_F_EXCL | NLM_F_ACK,
                  head_of(link, {filter.parent, filter.priority}, protocol));
  message.put(TCA_KIND, "u32");
  message.nest(TCA_OPTIONS,
               [&] { put_u32_filter(message, keys_of(filter.network, filter.end), filter.flow); });
  return {cat("add filter ", filter.network.str(), " to class ", str(filter.flow), " of '",
              link.name, "'"),
          std::move(message)};
}

Request add(const Link& link, const Program& program) {
  return put(link, program, "add", NLM_F_EXCL);
}
Request replace(const Link& link, const Program& program) {
  return put(link, program, "replace", NLM_F_REPLACE);
}

Request remove(const Link& link, const Program& program) {
  tcmsg head = head_of(link, {program.parent, program.priority}, ETH_P_ALL);
  head.tcm_handle = static_cast<std::uint32_t>(program.handle);
  Message message(RTM_DELTFILTER, NLM_F_ACK, head);
  message.put(TCA_KIND, "bpf");
  return {cat("remove program '", program.name, "' of '", link.name, "'"),
          std::move(message),
          {ENOENT, EINVAL, ENODEV}};
}

Request remove(const Link& link, const FilterGroup& group) {
  // EINVAL is a link without such a qdisc (__tcf_qdisc_find() in net/sched/cls_api.c).
  return {cat("remove filters of '", link.name, "'"),
          Message(RTM_DELTFILTER, NLM_F_ACK, head_of(link, group, 0)),
          {ENOENT, EINVAL, ENODEV}};
}

bool FilterState::redirects_all_to(int to) const {
  const bool all = kind == "u32" && protocol == ETH_P_ALL && !keys.empty() &&
                   std::all_of(keys.begin(), keys.end(), [](const Key& k) { return k.mask == 0; });
  return all && !mirreds.empty() && mirreds.front().redirect && mirreds.front().to_link == to;
}

std::optional<FilterState> decode_filter(const Reply& reply) {
  const auto head = reply.fixed<tcmsg>();
  FilterState out{.link = head.tcm_ifindex,
                  .parent = Handle{head.tcm_parent},
                  .handle = Handle{head.tcm_handle},
                  .priority = static_cast<std::uint16_t>(head.tcm_info >> 16),
                  .protocol = ::ntohs(static_cast<std::uint16_t>(head.tcm_info & 0xFFFFU))};
  bool is_filter = head.tcm_handle != 0;
  reply.attributes(sizeof head, [&](std::uint16_t type, const void* data, std::size_t size) {
    if (type == TCA_KIND) out.kind = get_text(data, size);  // comes before the options
    if (type != TCA_OPTIONS) return;
    if (out.kind == "u32") is_filter = decode_u32(out, data, size);
    if (out.kind == "bpf") decode_program(out, data, size);
  });
  if (!is_filter) return std::nullopt;
  return out;
}

}  // namespace netlink::tc
