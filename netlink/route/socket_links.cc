#include <linux/if.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <set>
#include <utility>

#include "netlink/route/socket.h"

namespace netlink {

namespace {

// The pod decides how long a dump of its links takes, and the caller may have a lock.
constexpr std::chrono::seconds kMaxDumping{1};

ifinfomsg link_head(int index) {
  ifinfomsg head{};
  head.ifi_index = index;
  return head;
}

Message get_link(int index) {
  Message message(RTM_GETLINK, 0, link_head(index));
  message.put_u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
  return message;
}

RouteRequest link_query(int index, std::string_view what) {
  return {cat("look up link '", what, "'"), get_link(index), {ENODEV}};
}

}  // namespace

std::optional<Link> RouteSocket::find(std::string_view name) {
  RouteRequest request = link_query(0, name);
  // A longer one can be an alternative name only (ip-link(8), altname).
  request.message.put(name.size() < IFNAMSIZ ? IFLA_IFNAME : IFLA_ALT_IFNAME, name);
  return find(std::move(request));
}

std::optional<Link> RouteSocket::find(int index) {
  if (index <= 0) return std::nullopt;  // the kernel's EINVAL
  return find(link_query(index, cat("#", index)));
}

std::optional<Link> RouteSocket::find(RouteRequest request) {
  std::optional<Link> link;
  ask(std::move(request), [&](const Reply& reply) {
    if (reply.type() == RTM_NEWLINK) link = decode_link(reply);
  });
  return link;
}

Link RouteSocket::get(std::string_view name) {
  auto link = find(name);
  if (!link) throw Error(cat("look up link '", name, "'"), ENODEV);
  return *link;
}

std::vector<Link> RouteSocket::dump_links(Message message) {
  message.add_flags(NLM_F_DUMP);
  std::vector<Link> now, before;
  const auto end = std::chrono::steady_clock::now() + kMaxDumping;
  const auto is_over = [end] { return std::chrono::steady_clock::now() >= end; };
  for (int attempt = 0; attempt < kMaxDumps && (attempt < 2 || !is_over()); ++attempt) {
    std::ranges::move(now, std::back_inserter(before));
    now.clear();
    const bool consistent = dump_once("list links", message, [&now](const Reply& reply) {
      if (reply.type() == RTM_NEWLINK) now.push_back(decode_link(reply));
    });
    if (consistent) return now;
  }
  std::set<int> known;
  std::erase_if(now, [&known](const Link& link) { return !known.insert(link.index).second; });
  for (const Link& link : before) {
    if (!known.insert(link.index).second) continue;
    if (auto missed = find(link.index)) now.push_back(*std::move(missed));
  }
  return now;
}

std::vector<Link> RouteSocket::links_of_kind(std::string_view kind) {
  Message message = get_link(0);
  message.nest(IFLA_LINKINFO, [&] { message.put(IFLA_INFO_KIND, kind); });
  auto out = dump_links(std::move(message));
  std::erase_if(out, [kind](const Link& link) { return link.kind != kind; });  // older kernels
  return out;
}

std::vector<Link> RouteSocket::links() { return dump_links(get_link(0)); }

}  // namespace netlink
