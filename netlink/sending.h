#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <atomic>
#include <vector>

#include "netlink/types/fd.h"

namespace netlink {

/// Sends the kernel one datagram of those parts, however often a signal comes. An errno; 0: sent.
int send_to_kernel(int socket, std::vector<iovec>& parts);

/// A sendmsg(2) to the kernel on a thread of its own. The kernel works on a request of netlink(7)
/// before sendmsg returns, and some work is mostly waiting: a link is removed when nobody can look
/// at it any more. Meanwhile the caller has its own thread for something else.
///
/// The thread only makes system calls; it neither allocates nor throws.
class Sending {
 public:
  /// Begins to send one datagram. What the parts point to must live as long as this. Where there is
  /// no thread to be had the datagram is sent before the constructor returns.
  Sending(int socket, std::vector<iovec> parts);
  Sending(const Sending&) = delete;
  Sending& operator=(const Sending&) = delete;
  /// Waits as well.
  ~Sending();

  /// Waits until it was sent, for which there is no limit. An errno; 0: sent.
  int wait();

 private:
  static void* run(void* self);
  bool start_thread();
  void send();
  void wait_without_event();

  int socket_;
  std::vector<iovec> parts_;
  Fd done_;  ///< eventfd(2), readable when the thread has no more to do with this
  bool has_thread_ = false;
  int error_ = 0;  ///< of the thread until is_sent_
  std::atomic<bool> is_sent_ = false;
};

}  // namespace netlink
