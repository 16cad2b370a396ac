#include "plugins/bandwidth/edt_program.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace bandwidth::edt {

namespace {

using std::chrono::nanoseconds;

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr nanoseconds kLongestHorizon = std::chrono::hours(1);
// A large packet (64 KiB, of 45 segments) is not cut up as by tbf, and may take longer than the
// horizon on its own: to drop it again and again would stop its sender for good.
constexpr nanoseconds kOwnTime = std::chrono::seconds(1);
// The program and fq read the clock one after the other, and the machine may be busy in between.
constexpr nanoseconds kSlack = std::chrono::seconds(1);

constexpr std::uint64_t kMaxRate = std::uint64_t{1} << 62, kMaxCredit = std::uint64_t{1} << 61;
// Packets: the queue is full of bytes before it is full of packets, unless these are shorter than
// this on average. A million of them take the kernel 1 GB.
constexpr std::uint64_t kShortPacket = 256, kMinPackets = 1000, kMaxPackets = 1'000'000;

nanoseconds horizon_of(const Limit& limit) {
  return std::clamp(limit.horizon, nanoseconds(0), kLongestHorizon);
}

// The nanoseconds that so many bytes take.
std::uint64_t time_of(std::uint64_t bytes, std::uint64_t rate) {
  const std::uint64_t seconds = bytes / rate;
  const std::uint64_t rest = bytes % rate;
  if (seconds >= kMaxCredit / kSecond) return kMaxCredit;
  constexpr std::uint64_t kExact = ~std::uint64_t{0} / kSecond;
  const std::uint64_t fraction = rest <= kExact ? rest * kSecond / rate : rest / (rate / kSecond);
  return seconds * kSecond + fraction;
}

}  // namespace

EdtConstants constants_of(const Limit& limit) {
  const std::uint64_t rate = std::clamp<std::uint64_t>(limit.rate, 1, kMaxRate);
  const nanoseconds horizon = horizon_of(limit);
  return {.rate = rate,
          .credit = time_of(limit.burst, rate),
          .horizon = static_cast<std::uint64_t>(horizon.count()),
          .latest = static_cast<std::uint64_t>((horizon + kOwnTime).count()),
          .packet_size_before = 0};
}

netlink::tc::Fq queue_of(const Limit& limit) {
  using std::chrono::microseconds;
  using std::chrono::milliseconds;
  const nanoseconds latest = horizon_of(limit) + kOwnTime;
  const auto ms = static_cast<std::uint64_t>(std::chrono::ceil<milliseconds>(latest).count());
  // The clamp before the product keeps it in range.
  const std::uint64_t per_second = std::min(limit.rate / kShortPacket, kMaxPackets);
  const auto packets =
      static_cast<std::uint32_t>(std::clamp(per_second * ms / 1000, kMinPackets, kMaxPackets));
  return {.limit = packets,
          .flow_limit = packets,
          .horizon = std::chrono::ceil<microseconds>(latest + kSlack),
          .horizon_drop = true,
          .pacing = false};  // every packet has a departure time already
}

unsigned packet_size_of(const Limit& limit, unsigned mtu, unsigned before) {
  // More than this is not the kernel's default but somebody's choice (BIG TCP). Much of what is
  // allowed TCP leaves for headers (MAX_TCP_HEADER in include/net/tcp.h).
  constexpr unsigned kHeaders = 512;
  if (before > kUsualPacketSize) return before;
  const std::uint64_t frames = 2 * std::uint64_t{mtu} + kHeaders;
  return static_cast<unsigned>(
      std::min<std::uint64_t>(before, std::max(limit.rate / 1000, frames)));
}

netlink::bpf::Object load(const Limit& limit, const PreviousProgram& previous) {
  netlink::bpf::Object program("edt", object());
  EdtConstants constants = constants_of(limit);
  constants.packet_size_before = previous.packet_size_before;
  program.set_constants(std::as_bytes(std::span(&constants, 1)));
  if (previous.departures != nullptr) program.reuse_map(kDepartures, *previous.departures);
  program.load();
  return program;
}

}  // namespace bandwidth::edt
