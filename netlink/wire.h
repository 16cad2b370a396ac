#pragma once

#include <optional>

#include "netlink/message.h"
#include "netlink/types/fd.h"
#include "netlink/types/ip.h"

namespace netlink {

/// The wire of an Ethernet link, seen from a host at its other end: the link receives frames that
/// nobody has sent, and what it sends to that host is read. For the namespace of the thread. A
/// frame passes what those from the wire pass behind the driver: XDP in the driver and the hardware
/// do not see it. Needs Linux 5.18, CAP_BPF (or CAP_SYS_ADMIN), CAP_NET_ADMIN and CAP_NET_RAW.
class Wire {
 public:
  /// \param link its index. \throws Error.
  Wire(int link, const Ip& host);

  /// The link receives the frame (BPF_F_TEST_XDP_LIVE_FRAMES; Documentation/bpf/bpf_prog_run.rst).
  /// \return 0, or an errno.
  int receive(View frame);
  /// A packet that the link has sent to the host, from its IP header on, cut to 2 KiB; valid until
  /// the next call. Empty: none now.
  std::optional<View> take_sent();
  /// Readable where take_sent() has something.
  int fd() const { return sent_.get(); }

 private:
  int link_;
  Fd program_, sent_;
  Bytes buffer_;
};

}  // namespace netlink
