#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "netlink/message.h"
#include "netlink/types/fd.h"

namespace netlink {

/// For Channel::send().
iovec part_of(const Message& message);

/// A netlink(7) socket between this process and the kernel, in the network namespace that the
/// thread is in when it is opened. A kernel that does not answer within ten seconds is an error
/// (ETIMEDOUT), not a hang.
class Channel {
 public:
  /// protocol is NETLINK_*. Errors of the kernel come with its own sentence where it has one.
  /// \throws Error; EPROTONOSUPPORT where the kernel lacks the protocol.
  explicit Channel(int protocol);
  Channel(Channel&&) noexcept = default;
  Channel& operator=(Channel&& other) noexcept;
  ~Channel();

  int fd() const { return fd_.get(); }
  void send(const Message& message, const std::string& operation);
  /// One datagram of those parts. \throws Error with that operation.
  void send(std::vector<iovec> parts, const std::string& operation);
  /// The kernel's next datagram; valid until the next call. \throws Error; EMSGSIZE if it was
  /// larger than expected and is lost: there is room for another one of its size now.
  View receive(const std::string& operation);
  /// Hears what these multicast groups (RTNLGRP_*) announce; before anything is sent. \throws
  /// Error.
  void join(std::initializer_list<unsigned> groups);
  /// Closing is going to wait for work of the kernel's (after nf_tables removed something, for
  /// 10 ms): at the end of its life the socket is left to the kernel, which closes it by itself.
  void close_later() noexcept { later_ = true; }

 private:
  Fd fd_;
  std::unique_ptr<std::uint8_t[]> buffer_;
  std::size_t room_;  ///< bytes of buffer_
  bool later_ = false;
};

}  // namespace netlink
