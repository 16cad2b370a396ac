#pragma once

#include <chrono>
#include <string>

#include "libcni/common/dir.h"

namespace cni {

/// The default deadline for a lock. A lock is held for milliseconds, so a longer wait means a stuck
/// process; the runtime's own deadline (four minutes in the kubelet) is not used up.
inline constexpr std::chrono::milliseconds kLockDeadline{60'000};

/// Takes the exclusive flock(2) on a file in dir, by default the one that the reference takes; held
/// until the result is closed. It is asked for again and again until the deadline: a call that
/// waits could be ended by a signal alone, and a library takes no signal from its program. 0 ms:
/// once. \throws Error(kTryAgainLater) naming the holder when the deadline is over; netlink::Error.
netlink::Fd take_lock(const Dir& dir, std::chrono::milliseconds deadline = kLockDeadline,
                      const std::string& name = "lock");

/// Takes the exclusive lock of one of many things: a byte of a file in dir, which the hash of the
/// thing's name chooses (F_OFD_SETLK of fcntl(2)), so that no file is left for each thing that ever
/// was. Two that share a byte wait for one another without need. Only root can open the file:
/// whoever can open one may lock it. Held until the result is closed. \throws as take_lock(), but
/// the holder is unknown.
netlink::Fd take_lock_of(const std::string& thing, const Dir& dir,
                         std::chrono::milliseconds deadline = kLockDeadline,
                         const std::string& name = "lock");

/// The PID of the process that has the flock(2) on the file; empty: nobody, or unknown.
std::string lock_holder(int fd);

}  // namespace cni
