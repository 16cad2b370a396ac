#include "netlink/nf/nfnetlink.h"

#include <endian.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>

#include <cstdio>

#include "netlink/types/error.h"

namespace netlink::nf {

namespace {

nfgenmsg head_of(TableFamily family, int resource) {
  return {.nfgen_family = static_cast<std::uint8_t>(family),
          .version = NFNETLINK_V0,
          .res_id = htobe16(static_cast<std::uint16_t>(resource))};
}

Message message_of(int subsystem, int type, int flags, TableFamily family) {
  return Message(static_cast<unsigned>(subsystem << 8 | type), static_cast<unsigned>(flags),
                 head_of(family, 0));
}

}  // namespace

std::string_view name_of(TableFamily family) {
  switch (family) {
    case TableFamily::kUnspec:
      return "unspec";
    case TableFamily::kInet:
      return "inet";
    case TableFamily::kIp:
      return "ip";
    case TableFamily::kArp:
      return "arp";
    case TableFamily::kNetdev:
      return "netdev";
    case TableFamily::kBridge:
      return "bridge";
    case TableFamily::kIp6:
      return "ip6";
  }
  return "unknown";
}

std::string words(const Bytes& data) {
  std::string out;
  for (std::size_t at = 0; at < data.size(); at += 4) {
    std::uint32_t word = 0;
    for (std::size_t i = 0; i < 4 && at + i < data.size(); ++i) {
      word |= static_cast<std::uint32_t>(data[at + i]) << 8 * i;
    }
    char text[12];
    std::snprintf(text, sizeof text, "0x%08x", word);
    out += cat(at == 0 ? "" : " ", text);
  }
  return out;
}

Message nf_tables_message(int type, int flags, TableFamily family) {
  return message_of(NFNL_SUBSYS_NFTABLES, type, flags, family);
}

Message conntrack_message(int type, int flags, TableFamily family) {
  return message_of(NFNL_SUBSYS_CTNETLINK, type, flags, family);
}

Message batch_boundary(int type) {
  return Message(static_cast<unsigned>(type), 0,
                 head_of(TableFamily::kUnspec, NFNL_SUBSYS_NFTABLES));
}

Attributes attributes_of(const Reply& reply) { return reply.attributes(sizeof(nfgenmsg)); }

}  // namespace netlink::nf
