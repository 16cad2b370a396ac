#include "plugins/state/waiters.h"

#include <fcntl.h>

#include <cstdint>
#include <optional>
#include <random>
#include <utility>

#include "libcni/common/error.h"

namespace blocks {

namespace {

using netlink::Fd;

/// The bytes of a set: each waiter has a random one of them. The first ones are those of waiters
/// for fixed addresses.
constexpr unsigned kBits = 40;
constexpr std::uint64_t kBytes = std::uint64_t{1} << kBits;
constexpr std::uint64_t kMaxSlots = std::uint64_t{1} << 20;

struct Span {
  std::uint64_t begin, end;  ///< the end is not included
};

Span span_of(std::uint64_t slot) { return {slot << kBits, (slot + 1) << kBits}; }

std::string name_of(const std::string& network) { return cni::cat(network, ".waiting"); }

struct flock lock_of(const Span& span, short type) {
  struct flock out {};
  out.l_type = type;
  out.l_whence = SEEK_SET;
  out.l_start = static_cast<off_t>(span.begin);
  out.l_len = static_cast<off_t>(span.end - span.begin);
  return out;
}

// A lock of another in the span; nothing: there is none, or it is unknown.
std::optional<Span> lock_in(const Fd& file, const Span& span) {
  if (span.begin >= span.end) return std::nullopt;
  struct flock lock = lock_of(span, F_WRLCK);
  if (::fcntl(file.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return std::nullopt;
  const auto begin = static_cast<std::uint64_t>(lock.l_start);
  const auto length = static_cast<std::uint64_t>(lock.l_len);
  return Span{begin, length == 0 ? span.end : begin + length};
}

// The kernel names one lock of those in a span, not the first.
std::size_t count_in(const Fd& file, const Span& span) {
  std::vector<Span> left{span};
  std::size_t out = 0;
  while (!left.empty() && out < kMaxWaiting) {
    const Span one = left.back();
    left.pop_back();
    const auto found = lock_in(file, one);
    if (!found) continue;
    ++out;
    left.push_back({one.begin, found->begin});
    left.push_back({found->end, one.end});
  }
  return out;
}

Fd opened(const cni::Dir& dir, const std::string& network, int flags) {
  constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  return Fd(::openat(dir.fd(), name_of(network).c_str(), kFlags | flags, 0600));
}

}  // namespace

Waiter::Waiter(const cni::Dir& dir, const std::string& network)
    : file_(opened(dir, network, O_CREAT)) {}

bool Waiter::wait_for(const std::vector<std::size_t>& sets) noexcept try {
  if (!file_) return false;
  struct flock all = lock_of({0, kMaxSlots << kBits}, F_UNLCK);
  ::fcntl(file_.get(), F_OFD_SETLK, &all);
  std::random_device random;
  bool out = true;
  const auto take = [&](std::uint64_t slot) {
    const std::uint64_t at =
        span_of(slot).begin + ((std::uint64_t{random()} << 32U | random()) % kBytes);
    struct flock one = lock_of({at, at + 1}, F_RDLCK);  // shared: no other waiter refuses it
    out = ::fcntl(file_.get(), F_OFD_SETLK, &one) == 0 && out;
  };
  if (sets.empty()) take(0);
  for (const std::size_t set : sets) take(set + 1);
  return out;
} catch (const std::exception&) {
  return false;
}

std::size_t count_waiting(const cni::Dir& dir, const std::string& network, std::size_t set) {
  const Fd file = opened(dir, network, 0);
  return file ? count_in(file, span_of(set + 1)) : 0;
}

bool are_waiting(const cni::Dir& dir, const std::string& network) {
  const Fd file = opened(dir, network, 0);
  return file && lock_in(file, {0, kMaxSlots << kBits}).has_value();
}

}  // namespace blocks
