#include "netlink/route/link_settings.h"

#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "netlink/types/error.h"

namespace netlink {

namespace {

constexpr std::uint16_t kGsoIpv4MaxSize = 63, kGroIpv4MaxSize = 64;  // IFLA_*, since Linux 6.3

struct Limit {
  std::uint16_t attribute;
  std::uint32_t LinkSettings::*field;
};
constexpr Limit kLimits[] = {
    {IFLA_GROUP, &LinkSettings::group},
    {IFLA_TXQLEN, &LinkSettings::tx_queue_length},
    {IFLA_GSO_MAX_SIZE, &LinkSettings::gso_max_size},
    {IFLA_GSO_MAX_SEGS, &LinkSettings::gso_max_segments},
    {IFLA_GRO_MAX_SIZE, &LinkSettings::gro_max_size},
    {kGsoIpv4MaxSize, &LinkSettings::gso_ipv4_max_size},
    {kGroIpv4MaxSize, &LinkSettings::gro_ipv4_max_size},
};

ifinfomsg head_of(const Link& link) {
  ifinfomsg head{};
  head.ifi_index = link.index;
  return head;
}

template <class Fill>
RouteRequest change(const Link& link, const char* what, Fill&& fill) {
  Message message(RTM_SETLINK, NLM_F_ACK, head_of(link));
  fill(message);
  return {cat("set ", what, " of '", link.name, "'"), std::move(message)};
}

RouteRequest change_flags(const Link& link, std::uint32_t mask, std::uint32_t to) {
  ifinfomsg head = head_of(link);
  head.ifi_change = mask;
  head.ifi_flags = mask & to;
  return {cat("set flags of '", link.name, "'"), Message(RTM_SETLINK, NLM_F_ACK, head)};
}

RouteRequest altname_request(std::uint16_t type, unsigned flags, const Link& link,
                             const std::string& name) {
  Message message(type, flags | NLM_F_ACK, head_of(link));
  message.nest(IFLA_PROP_LIST | NLA_F_NESTED, [&] { message.put(IFLA_ALT_IFNAME, name); });
  const char* const verb = type == RTM_NEWLINKPROP ? "add" : "remove";
  return {cat(verb, " alternative name '", name, "' of '", link.name, "'"), std::move(message)};
}

}  // namespace

const std::uint32_t LinkSettings::kSettable = IFF_NOARP | IFF_MULTICAST | IFF_ALLMULTI | IFF_DEBUG |
                                              IFF_NOTRAILERS | IFF_DYNAMIC | IFF_PORTSEL |
                                              IFF_AUTOMEDIA;

LinkSettings decode_settings(const Reply& reply) {
  const auto head = reply.fixed<ifinfomsg>();
  const Attributes attributes = reply.attributes(sizeof head);
  LinkSettings out{.flags = head.ifi_flags & LinkSettings::kSettable};
  for (const Limit& limit : kLimits) out.*limit.field = attributes.find(limit.attribute).u32();
  out.mode = attributes.find(IFLA_LINKMODE).u8();
  out.proto_down = attributes.find(IFLA_PROTO_DOWN).u8() != 0;
  for (const Attribute& one : attributes.nested(IFLA_PROP_LIST)) {
    if (one.type == IFLA_ALT_IFNAME) out.altnames.emplace_back(one.text());
  }
  const Attributes xdp = attributes.nested(IFLA_XDP);
  out.xdp = {.driver = xdp.find(IFLA_XDP_DRV_PROG_ID).u32(),
             .generic = xdp.find(IFLA_XDP_SKB_PROG_ID).u32(),
             .hardware = xdp.find(IFLA_XDP_HW_PROG_ID).u32()};
  return out;
}

LinkSettings settings_of(RouteSocket& where, const Link& link) {
  Message message(RTM_GETLINK, 0, head_of(link));
  message.put_u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
  LinkSettings out;
  where.ask({cat("look up the settings of '", link.name, "'"), std::move(message)},
            [&out](const Reply& reply) {
              if (reply.type() == RTM_NEWLINK) out = decode_settings(reply);
            });
  return out;
}

std::vector<RouteRequest> change_settings(const Link& link, const LinkSettings& from,
                                          const LinkSettings& to) {
  std::vector<RouteRequest> out;
  if (const auto mask = (from.flags ^ to.flags) & LinkSettings::kSettable; mask != 0) {
    out.push_back(change_flags(link, mask, to.flags));
  }
  for (const Limit& limit : kLimits) {
    const std::uint32_t wanted = to.*limit.field;
    if (from.*limit.field == wanted) continue;
    out.push_back(change(link, "group, queue length, GSO or GRO limit",
                         [&](Message& message) { message.put_u32(limit.attribute, wanted); }));
  }
  if (from.mode != to.mode) {
    out.push_back(change(link, "mode", [&](Message& m) { m.put_u8(IFLA_LINKMODE, to.mode); }));
  }
  if (from.proto_down != to.proto_down) {
    out.push_back(change(link, "protodown",
                         [&](Message& m) { m.put_u8(IFLA_PROTO_DOWN, to.proto_down ? 1 : 0); }));
  }
  return out;
}

RouteRequest add_altname(const Link& link, const std::string& name) {
  return altname_request(RTM_NEWLINKPROP, NLM_F_CREATE | NLM_F_EXCL | NLM_F_APPEND, link, name);
}

RouteRequest remove_altname(const Link& link, const std::string& name) {
  RouteRequest out = altname_request(RTM_DELLINKPROP, 0, link, name);
  out.tolerated = {ENOENT};
  return out;
}

std::vector<RouteRequest> detach_xdp(const Link& link, const LinkSettings::Xdp& attached,
                                     const std::vector<std::uint32_t>& kept) {
  std::vector<RouteRequest> out;
  const auto detach = [&](std::uint32_t program, std::uint32_t flag) {
    if (program == 0 || std::ranges::find(kept, program) != kept.end()) return;
    out.push_back(change(link, "XDP program", [flag](Message& message) {
      message.nest(IFLA_XDP | NLA_F_NESTED, [&] {
        message.put_struct(IFLA_XDP_FD, std::int32_t{-1});  // none
        message.put_u32(IFLA_XDP_FLAGS, flag);
      });
    }));
  };
  detach(attached.driver, XDP_FLAGS_DRV_MODE);
  detach(attached.generic, XDP_FLAGS_SKB_MODE);
  detach(attached.hardware, XDP_FLAGS_HW_MODE);
  return out;
}

}  // namespace netlink
