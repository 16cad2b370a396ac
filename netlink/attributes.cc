#include "netlink/attributes.h"

#include <endian.h>
#include <linux/netlink.h>

#include <algorithm>
#include <stdexcept>

namespace netlink {

namespace {

// Takes what begins with a Head, whose first member is the length, header included.
template <class Head, class Length>
std::optional<View> take_item(View& rest, Length Head::*member) {
  const std::size_t length = read_struct<Head>(rest).*member;
  if (length < sizeof(Head) || length > rest.size()) return std::nullopt;
  const View item = rest.first(length);
  rest = rest.subspan(std::min(aligned(length), rest.size()));
  return item;
}

nlmsghdr header_of(View message) { return read_struct<nlmsghdr>(message); }

}  // namespace

std::optional<Attribute> Attribute::take(View& rest) {
  const auto item = take_item(rest, &nlattr::nla_len);
  if (!item) return std::nullopt;
  const auto type = read_struct<nlattr>(*item).nla_type;
  return Attribute{static_cast<std::uint16_t>(type & NLA_TYPE_MASK), item->subspan(sizeof(nlattr))};
}

std::uint16_t Attribute::be16() const { return be16toh(u16()); }
std::uint32_t Attribute::be32() const { return be32toh(u32()); }
std::uint64_t Attribute::be64() const { return be64toh(u64()); }

std::string_view Attribute::text() const {
  const auto* const text = reinterpret_cast<const char*>(value.data());
  return {text, value.empty() ? 0 : ::strnlen(text, value.size())};
}

// Flat, because rules with hundreds of attributes are compared in each ADD.
[[gnu::flatten]] Attribute Attributes::find(std::uint16_t type) const {
  for (const Attribute& one : *this) {
    if (one.type == type) return one;
  }
  return {};
}

std::optional<Reply> Reply::take(View& rest) {
  const auto item = take_item(rest, &nlmsghdr::nlmsg_len);
  if (!item) return std::nullopt;
  return Reply(*item);
}

std::uint16_t Reply::type() const { return header_of(bytes_).nlmsg_type; }
std::uint16_t Reply::flags() const { return header_of(bytes_).nlmsg_flags; }
std::uint32_t Reply::sequence() const { return header_of(bytes_).nlmsg_seq; }
View Reply::payload() const { return bytes_.subspan(sizeof(nlmsghdr)); }

Attributes Reply::attributes(std::size_t fixed_size) const {
  const View after = payload();
  return Attributes(after.subspan(std::min(aligned(fixed_size), after.size())));
}

void Reply::throw_short() {
  throw std::invalid_argument("a netlink message is shorter than its header says");
}

}  // namespace netlink
