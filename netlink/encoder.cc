#include "netlink/encoder.h"

#include <linux/netlink.h>

#include <cerrno>
#include <cstring>

#include "netlink/types/error.h"

namespace netlink {

namespace {

constexpr std::size_t kAttributeHeader = sizeof(nlattr);
constexpr std::size_t kLongestAttribute = 0xffff;
constexpr std::size_t kUsualSize = 256;  // of most requests

// NLA_ALIGN of linux/netlink.h is signed.
constexpr std::size_t aligned(std::size_t size) { return (size + 3) & ~std::size_t{3}; }

// A caller's fault, but one that input can cause (a name too long): never an overflow.
void require(bool fits) {
  if (!fits) throw Error("build a netlink message", EMSGSIZE);
}

}  // namespace

Encoder::Encoder(std::uint16_t type, std::uint16_t flags, std::size_t limit) : limit_(limit) {
  bytes_.reserve(kUsualSize);
  grow(sizeof(nlmsghdr));
  header()->nlmsg_type = type;
  header()->nlmsg_flags = static_cast<std::uint16_t>(flags | NLM_F_REQUEST);
}

nlmsghdr* Encoder::header() { return reinterpret_cast<nlmsghdr*>(bytes_.data()); }

const nlmsghdr* Encoder::header() const { return reinterpret_cast<const nlmsghdr*>(bytes_.data()); }

std::size_t Encoder::grow(std::size_t size) {
  const std::size_t at = bytes_.size();
  require(size <= limit_ && at + aligned(size) <= limit_);
  bytes_.resize(at + aligned(size));
  header()->nlmsg_len = static_cast<std::uint32_t>(bytes_.size());
  return at;
}

void Encoder::append(const void* data, std::size_t size) {
  const std::size_t at = grow(size);
  if (size > 0) std::memcpy(&bytes_[at], data, size);
}

void Encoder::put(std::uint16_t attribute, const void* data, std::size_t size) {
  require(size <= kLongestAttribute - kAttributeHeader);
  const std::size_t at = grow(kAttributeHeader + size);
  const nlattr head{static_cast<std::uint16_t>(kAttributeHeader + size), attribute};
  std::memcpy(&bytes_[at], &head, sizeof head);
  if (size > 0) std::memcpy(&bytes_[at + kAttributeHeader], data, size);
}

std::size_t Encoder::begin(std::uint16_t attribute) {
  const std::size_t at = bytes_.size();
  put(static_cast<std::uint16_t>(attribute | NLA_F_NESTED), nullptr, 0);
  return at;
}

void Encoder::end(std::size_t open) {
  const std::size_t length = bytes_.size() - open;
  require(length <= kLongestAttribute);
  const auto field = static_cast<std::uint16_t>(length);
  std::memcpy(&bytes_[open], &field, sizeof field);
}

}  // namespace netlink
