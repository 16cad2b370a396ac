#pragma once

#include <linux/netlink.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

/// Netlink messages one after the other, each with its attributes (netlink(7)): no more of them
/// than fit, which nobody checks.
class Messages {
 public:
  template <class Header>
  void begin(unsigned type, unsigned flags, const Header& header) {
    message_ = reinterpret_cast<nlmsghdr*>(buffer_ + size_);
    *message_ = {};
    message_->nlmsg_type = static_cast<std::uint16_t>(type);
    message_->nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | flags);
    message_->nlmsg_seq = ++count_;
    size_ += NLMSG_HDRLEN;
    append(&header, sizeof header);
  }
  void put(unsigned type, const void* data, std::size_t length) {
    const nlattr attribute{static_cast<std::uint16_t>(sizeof(nlattr) + length),
                           static_cast<std::uint16_t>(type)};
    append(&attribute, sizeof attribute);
    append(data, length);
  }
  void put(unsigned type, std::string_view text) {  // of which a NUL follows
    put(type, text.data(), text.size() + 1);
  }
  template <class Value>
  void value(unsigned type, const Value& value) {
    put(type, &value, sizeof value);
  }
  template <class Fill>
  void nest(unsigned type, Fill fill) {
    const std::size_t start = size_;
    put(type | NLA_F_NESTED, nullptr, 0);
    fill();
    reinterpret_cast<nlattr*>(buffer_ + start)->nla_len = static_cast<std::uint16_t>(size_ - start);
  }
  void append(const void* data, std::size_t length) {
    if (length != 0) std::memcpy(buffer_ + size_, data, length);
    size_ += NLMSG_ALIGN(length);
    message_->nlmsg_len =
        static_cast<std::uint32_t>(buffer_ + size_ - reinterpret_cast<unsigned char*>(message_));
  }
  // The last one is answered; one that failed before is, too.
  void acknowledge() { message_->nlmsg_flags |= NLM_F_ACK; }
  std::uint32_t last() const { return message_->nlmsg_seq; }
  const void* data() const { return buffer_; }
  std::size_t size() const { return size_; }

 private:
  alignas(8) unsigned char buffer_[8192] = {};
  std::size_t size_ = 0;
  std::uint32_t count_ = 0;
  nlmsghdr* message_ = nullptr;
};
