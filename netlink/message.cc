#include "netlink/message.h"

#include <endian.h>
#include <linux/netlink.h>

#include <cerrno>
#include <cstring>

#include "netlink/types/error.h"

namespace netlink {

namespace {

constexpr std::size_t kUsualSize = 256;  // of most requests

// A caller's fault, but one that input can cause (a name too long): never an overflow.
void require(bool fits) {
  if (!fits) throw Error("build a netlink message", EMSGSIZE);
}

nlmsghdr* header_of(Bytes& bytes) { return reinterpret_cast<nlmsghdr*>(bytes.data()); }

}  // namespace

Message::Message(unsigned type, unsigned flags) {
  bytes_.reserve(kUsualSize);
  grow(sizeof(nlmsghdr));
  header_of(bytes_)->nlmsg_type = static_cast<std::uint16_t>(type);
  add_flags(flags | NLM_F_REQUEST);
}

std::size_t Message::grow(std::size_t size) {
  const std::size_t at = bytes_.size();
  require(size <= kLargest && at + aligned(size) <= kLargest);
  bytes_.resize(at + aligned(size));
  header_of(bytes_)->nlmsg_len = static_cast<std::uint32_t>(bytes_.size());
  return at;
}

void Message::add(const void* data, std::size_t size) {
  const std::size_t at = grow(size);
  if (size > 0) std::memcpy(&bytes_[at], data, size);
}

void Message::put(std::uint16_t attribute, const void* data, std::size_t size) {
  const std::size_t at = grow(sizeof(nlattr) + size);
  const nlattr head{static_cast<std::uint16_t>(sizeof(nlattr) + size), attribute};
  std::memcpy(&bytes_[at], &head, sizeof head);
  if (size > 0) std::memcpy(&bytes_[at + sizeof head], data, size);
}

void Message::put(std::uint16_t attribute, std::string_view text) {
  const std::string terminated(text);
  put(attribute, terminated.c_str(), terminated.size() + 1);
}

void Message::put_be16(std::uint16_t attribute, std::uint16_t value) {
  put_u16(attribute, htobe16(value));
}

void Message::put_be32(std::uint16_t attribute, std::uint32_t value) {
  put_u32(attribute, htobe32(value));
}

void Message::put_be64(std::uint16_t attribute, std::uint64_t value) {
  put_u64(attribute, htobe64(value));
}

std::size_t Message::begin(std::uint16_t attribute) {
  const std::size_t at = bytes_.size();
  put(static_cast<std::uint16_t>(attribute | NLA_F_NESTED), nullptr, 0);
  return at;
}

void Message::end(std::size_t start) {
  const auto length = static_cast<std::uint16_t>(bytes_.size() - start);
  std::memcpy(&bytes_[start], &length, sizeof length);
}

void Message::add_flags(unsigned flags) {
  nlmsghdr* const header = header_of(bytes_);
  header->nlmsg_flags = static_cast<std::uint16_t>(header->nlmsg_flags | flags);
}

void Message::set_sequence(std::uint32_t sequence) { header_of(bytes_)->nlmsg_seq = sequence; }

}  // namespace netlink
