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

/// The same on the directory itself, for one in which no file of ours may lie.
netlink::Fd take_lock_on(const Dir& dir, std::chrono::milliseconds deadline = kLockDeadline);

/// The PID of the process that has the flock(2) on the file; empty: nobody, or unknown.
std::string lock_holder(int fd);

}  // namespace cni
