#include "netlink/route/message.h"

#include <linux/netlink.h>

#include <cstring>
#include <stdexcept>

namespace netlink {

namespace {

// NLA_TYPE_MASK of linux/netlink.h is signed.
constexpr unsigned kTypeMask = 0xffffU & ~unsigned{NLA_F_NESTED | NLA_F_NET_BYTEORDER};

constexpr std::size_t kLargest = 4096;

template <class T>
T get(const void* data, std::size_t size) {
  T value = 0;
  if (size >= sizeof value) std::memcpy(&value, data, sizeof value);
  return value;
}

}  // namespace

Message::Message(std::uint16_t type, std::uint16_t flags, const void* header, std::size_t size)
    : encoder_(type, flags, kLargest) {
  encoder_.append(header, size);
}

void Message::put(std::uint16_t attribute, const void* data, std::size_t size) {
  encoder_.put(attribute, data, size);
}

void Message::put(std::uint16_t attribute, std::string_view text) {
  const std::string terminated(text);
  put(attribute, terminated.c_str(), terminated.size() + 1);
}

void Message::put(std::uint16_t attribute, const Ip& ip) { put(attribute, ip.data(), ip.size()); }

void Message::put_u8(std::uint16_t attribute, std::uint8_t value) {
  put(attribute, &value, sizeof value);
}

void Message::put_u16(std::uint16_t attribute, std::uint16_t value) {
  put(attribute, &value, sizeof value);
}

void Message::put_u32(std::uint16_t attribute, std::uint32_t value) {
  put(attribute, &value, sizeof value);
}

std::uint16_t Reply::type() const { return header_->nlmsg_type; }

std::vector<char> Reply::copy() const {
  const auto* const bytes = reinterpret_cast<const char*>(header_);
  return {bytes, bytes + header_->nlmsg_len};
}

void Reply::copy_fixed(void* out, std::size_t size) const {
  if (header_->nlmsg_len < NLMSG_HDRLEN + size) {
    throw std::invalid_argument("a netlink message is shorter than its header says");
  }
  std::memcpy(out, reinterpret_cast<const char*>(header_) + NLMSG_HDRLEN, size);
}

void Reply::attributes(std::size_t fixed_size, const Each& each) const {
  const std::size_t begin = NLMSG_HDRLEN + NLMSG_ALIGN(fixed_size);
  if (header_->nlmsg_len < begin) return;
  nested(reinterpret_cast<const char*>(header_) + begin, header_->nlmsg_len - begin, each);
}

void nested(const void* data, std::size_t size, const Reply::Each& each) {
  constexpr std::size_t kHeader = sizeof(nlattr);
  const auto* at = static_cast<const char*>(data);
  while (size >= kHeader) {
    nlattr attribute;
    std::memcpy(&attribute, at, kHeader);
    const std::size_t length = attribute.nla_len;
    if (length < kHeader || length > size) return;
    each(static_cast<std::uint16_t>(attribute.nla_type & kTypeMask), at + kHeader,
         length - kHeader);
    const std::size_t step = (length + 3) & ~std::size_t{3};
    if (step >= size) return;
    at += step;
    size -= step;
  }
}

std::uint32_t get_u32(const void* data, std::size_t size) { return get<std::uint32_t>(data, size); }
std::uint16_t get_u16(const void* data, std::size_t size) { return get<std::uint16_t>(data, size); }
std::uint8_t get_u8(const void* data, std::size_t size) { return get<std::uint8_t>(data, size); }

std::string get_text(const void* data, std::size_t size) {
  const auto* const text = static_cast<const char*>(data);
  return {text, ::strnlen(text, size)};
}

}  // namespace netlink
