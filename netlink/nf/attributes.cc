#include "netlink/nf/attributes.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include <algorithm>
#include <cstring>

namespace netlink::nf {

namespace {

std::uint64_t big_endian(Attributes::View bytes) {
  std::uint64_t value = 0;
  for (const std::uint8_t byte : bytes) value = value << 8 | byte;
  return value;
}

}  // namespace

Attributes Attributes::of(const ::nlmsghdr* message) {
  constexpr std::size_t kBefore = sizeof(::nlmsghdr) + sizeof(nfgenmsg);
  if (message->nlmsg_len < kBefore) return {};
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(message);
  return Attributes({bytes + kBefore, message->nlmsg_len - kBefore});
}

std::optional<Attributes::One> Attributes::next() {
  nlattr head;
  if (rest_.size() < sizeof head) return std::nullopt;
  std::memcpy(&head, rest_.data(), sizeof head);
  if (head.nla_len < sizeof head || head.nla_len > rest_.size()) return std::nullopt;
  const One one{static_cast<std::uint16_t>(head.nla_type & NLA_TYPE_MASK),
                rest_.subspan(sizeof head, head.nla_len - sizeof head)};
  const std::size_t step = (std::size_t{head.nla_len} + 3) & ~std::size_t{3};
  rest_ = rest_.subspan(std::min(step, rest_.size()));
  return one;
}

Attributes::View Attributes::find(std::uint16_t type) const {
  Attributes walk = *this;
  while (const auto one = walk.next()) {
    if (one->type == type) return one->value;
  }
  return {};
}

std::string_view Attributes::text_at(std::uint16_t type) const {
  const View value = find(type);
  const auto* const text = reinterpret_cast<const char*>(value.data());
  return {text, value.empty() ? 0 : ::strnlen(text, value.size())};
}

std::uint32_t Attributes::be32(std::uint16_t type) const {
  const View value = find(type);
  return value.size() == 4 ? static_cast<std::uint32_t>(big_endian(value)) : 0;
}

std::uint64_t Attributes::be64(std::uint16_t type) const {
  const View value = find(type);
  return value.size() == 8 ? big_endian(value) : 0;
}

}  // namespace netlink::nf
