#include "netlink/nf/message.h"

#include <arpa/inet.h>
#include <endian.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <cstdio>

#include "netlink/types/error.h"

namespace netlink::nf {

namespace {

constexpr std::size_t kLargest =
    65536;  // the longest that an attribute, as of many elements, can be

}  // namespace

std::string_view name_of(TableFamily family) {
  switch (family) {
    case TableFamily::kUnspec:
      return "unspec";
    case TableFamily::kInet:
      return "inet";
    case TableFamily::kIp:
      return "ip";
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

Head nf_tables_head(int message, int flags, TableFamily family) {
  return {.type = static_cast<std::uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | message),
          .flags = static_cast<std::uint16_t>(flags),
          .family = family};
}

Message::Message(const Head& head) : encoder_(head.type, head.flags, kLargest) {
  const nfgenmsg generic{.nfgen_family = static_cast<std::uint8_t>(head.family),
                         .version = NFNETLINK_V0,
                         .res_id = ::htons(head.resource)};
  encoder_.append(&generic, sizeof generic);
}

void Message::put(std::uint16_t attribute, std::string_view text) {
  const std::string terminated(text);
  encoder_.put(attribute, terminated.c_str(), terminated.size() + 1);
}

void Message::put(std::uint16_t attribute, std::span<const std::uint8_t> bytes) {
  encoder_.put(attribute, bytes.data(), bytes.size());
}

void Message::put_be32(std::uint16_t attribute, std::uint32_t value) {
  const std::uint32_t wire = ::htonl(value);
  encoder_.put(attribute, &wire, sizeof wire);
}

void Message::put_be64(std::uint16_t attribute, std::uint64_t value) {
  const std::uint64_t wire = htobe64(value);
  encoder_.put(attribute, &wire, sizeof wire);
}

void Message::set_sequence(std::uint32_t sequence) { encoder_.header()->nlmsg_seq = sequence; }

void Message::add_flags(std::uint16_t flags) {
  nlmsghdr* const header = encoder_.header();
  header->nlmsg_flags = static_cast<std::uint16_t>(header->nlmsg_flags | flags);
}

}  // namespace netlink::nf
