#include "netlink/nf/message.h"

#include <arpa/inet.h>
#include <endian.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>

#include <cerrno>
#include <cstdio>

#include "netlink/types/error.h"

namespace netlink::nf {

namespace {

// A caller's fault, but one that input can cause (a name too long): never an overflow.
void require(bool fits) {
  if (!fits) throw Error("build a netfilter message", EMSGSIZE);
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

Message::Message(const Head& head, std::size_t capacity) : buffer_(capacity) {
  require(capacity >= sizeof(::nlmsghdr) + sizeof(nfgenmsg));
  ::nlmsghdr* const nlh = ::mnl_nlmsg_put_header(buffer_.data());
  nlh->nlmsg_type = head.type;
  nlh->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | head.flags);
  auto* const generic = static_cast<nfgenmsg*>(::mnl_nlmsg_put_extra_header(nlh, sizeof(nfgenmsg)));
  generic->nfgen_family = static_cast<std::uint8_t>(head.family);
  generic->version = NFNETLINK_V0;
  generic->res_id = ::htons(head.resource);
}

::nlmsghdr* Message::header() { return reinterpret_cast<::nlmsghdr*>(buffer_.data()); }

void Message::put(std::uint16_t attribute, std::string_view text) {
  const std::string terminated(text);
  require(::mnl_attr_put_strz_check(header(), buffer_.size(), attribute, terminated.c_str()));
}

void Message::put(std::uint16_t attribute, std::span<const std::uint8_t> bytes) {
  require(::mnl_attr_put_check(header(), buffer_.size(), attribute, bytes.size(), bytes.data()));
}

void Message::put_be32(std::uint16_t attribute, std::uint32_t value) {
  require(::mnl_attr_put_u32_check(header(), buffer_.size(), attribute, ::htonl(value)));
}

void Message::put_be64(std::uint16_t attribute, std::uint64_t value) {
  require(::mnl_attr_put_u64_check(header(), buffer_.size(), attribute, htobe64(value)));
}

::nlattr* Message::begin(std::uint16_t attribute) {
  ::nlattr* const open = ::mnl_attr_nest_start_check(header(), buffer_.size(), attribute);
  require(open != nullptr);
  return open;
}

void Message::end(::nlattr* open) { ::mnl_attr_nest_end(header(), open); }

void Message::set_sequence(std::uint32_t sequence) { header()->nlmsg_seq = sequence; }

void Message::add_flags(std::uint16_t flags) {
  header()->nlmsg_flags = static_cast<std::uint16_t>(header()->nlmsg_flags | flags);
}

std::span<const std::uint8_t> Message::bytes() const {
  const auto* const nlh = reinterpret_cast<const ::nlmsghdr*>(buffer_.data());
  return {buffer_.data(), nlh->nlmsg_len};
}

}  // namespace netlink::nf
