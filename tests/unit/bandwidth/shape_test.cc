#include "plugins/bandwidth/shape.h"

#include <doctest/doctest.h>

#include <limits>

using bandwidth::Conf;
using bandwidth::Limit;
using bandwidth::Shape;
using netlink::tc::Ticks;
using std::chrono::microseconds;
using std::chrono::milliseconds;

namespace {

constexpr std::uint32_t kMax = std::numeric_limits<std::uint32_t>::max();
constexpr unsigned kMtu = 1500, kPacket = 1514;
constexpr Limit kKubernetes{1'000'000, 4294967295};

// With the reference's queue.
Shape shape(const Limit& limit, Conf conf = {}) {
  conf.queue = bandwidth::Queue::kFifo;
  return shape_of(limit, conf, kMtu, Ticks{});
}

Conf with_latency(int ms) {
  Conf out;
  out.latency = milliseconds(ms);
  return out;
}

Conf with_burst_time(int ms) {
  Conf out;
  out.burst_time = milliseconds(ms);
  return out;
}

// The largest packet that the kernel lets through a bucket: psched_ns_t2l() of 64 ns ticks.
std::uint64_t largest_packet(const Shape& of) {
  return static_cast<std::uint64_t>(static_cast<double>(of.buffer) * 64e-9 *
                                    static_cast<double>(of.rate));
}

}  // namespace

TEST_CASE("rates and bursts become the reference's bytes and ticks") {
  CHECK(shape({8, 8}) == Shape{1, 1, 15'625'000, 1});
  CHECK(shape({16, 8}) == Shape{2, 1, 7'812'500, 1});
  CHECK(shape({8000, 80}) == Shape{1000, 10, 156'250, 35});
  CHECK(shape({8'000'000, 80'000}) == Shape{1'000'000, 10'000, 156'250, 35'000});
  CHECK(shape({15, 15}) == Shape{1, 1, 15'625'000, 1});  // whole bytes
  // 100 Gbit/s; 12.5 MB take 1 ms.
  CHECK(shape({100'000'000'000, 100'000'000}) ==
        Shape{12'500'000'000, 12'500'000, 15'625, 325'000'000});
}

TEST_CASE("what does not fit into 32 bits is the most that does") {
  CHECK(shape(kKubernetes) == Shape{125'000, 536'870'911, kMax, 536'874'036});
  // 20 Mbit/s: 215 seconds still fit.
  CHECK(shape({20'000'000, 4294967295}).buffer == 3'355'443'187);
  const Limit largest{std::numeric_limits<std::int64_t>::max(), 34359738352};
  CHECK(shape(largest).rate == 1'152'921'504'606'846'975);
  CHECK(shape(largest).limit == kMax);
  CHECK(shape({8, 34359738352}).buffer == kMax);
}

TEST_CASE("what the reference installs where its arithmetic wraps around") {
  // Seen with tc(8): burst 21474835b at 1 Mbit/s.
  const Shape wrapped = wrapped_shape_of(kKubernetes, Ticks{});
  CHECK(wrapped == Shape{125'000, 536'870'911, 2'684'354'435, 536'874'036});
  CHECK(largest_packet(wrapped) == 21'474'835);
  for (const Limit& limit : {Limit{8000, 80}, Limit{8'000'000, 80'000}}) {
    CHECK(wrapped_shape_of(limit, Ticks{}) == shape(limit));
  }
}

TEST_CASE("a bucket that holds a packet holds it after rounding") {
  for (const std::uint64_t rate : {8'000'000U, 1'000'000'000U, 3'333'333'333U}) {
    CHECK(largest_packet(shape({rate, kPacket * 8})) >= kPacket);
  }
  CHECK(largest_packet(shape({10'000'000'000, kPacket * 8})) >= kPacket);
  CHECK(largest_packet(shape({400'000'000'000, kPacket * 8})) >= kPacket);
  CHECK(largest_packet(shape({8'000'000, 8000})) == 1000);  // as it was asked for
}

TEST_CASE("a burst time cuts larger bursts and stands for absent ones, down to one packet") {
  const Conf conf = with_burst_time(100);
  CHECK(shape(kKubernetes, conf).burst == 12'500);
  CHECK(shape(kKubernetes, conf).buffer == 1'562'500);
  CHECK(shape(kKubernetes, conf).limit == 3125 + 12'500);
  CHECK(shape({1'000'000, 0}, conf).burst == 12'500);
  CHECK(shape({1'000'000, 40'000}, conf).burst == 5000);
  CHECK(shape({1'000'000, 800}, conf).burst == kPacket);
  CHECK(shape({1'000'000, 0}, with_burst_time(1)).burst == kPacket);
  CHECK(shape_of({8, 0}, with_burst_time(1), 65535, Ticks{}).burst == 65549);
  const Limit largest{std::numeric_limits<std::int64_t>::max(), 0};
  CHECK(shape(largest, with_burst_time(10000)).burst == kMax);
}

TEST_CASE("a latency is the queue's, and packets that it cannot hold are cut up") {
  // 1 Mbit/s for 100 ms are 12500 bytes: less than what a stack hands over in one piece.
  const Shape small = shape(kKubernetes, with_latency(100));
  CHECK(small.limit == 12'500);
  CHECK(small.burst == 12'500);
  CHECK(largest_packet(small) <= small.limit);
  // 100 Mbit/s: 1.25 MB; the burst stays.
  const Shape large = shape({100'000'000, 4294967295}, with_latency(100));
  CHECK(large.limit == 1'250'000);
  CHECK(large.burst == 536'870'911);
  // Never less than one packet.
  const Shape least = shape({80'000, 800'000}, with_latency(1));
  CHECK(least.limit == kPacket);
  CHECK(least.burst == kPacket);
  CHECK(largest_packet(least) >= kPacket);
  // A burst that is smaller stays.
  CHECK(shape({1'000'000, 80}, with_latency(100)).burst == 10);
}

TEST_CASE("latency and burst time together") {
  Conf conf = with_burst_time(10);
  conf.latency = milliseconds(50);
  const Shape both = shape({100'000'000, 4294967295}, conf);
  CHECK(both.burst == 125'000);
  CHECK(both.limit == 625'000);
}

TEST_CASE("where flows take turns, a turn is a millisecond or a frame") {
  for (const auto queue :
       {std::optional<bandwidth::Queue>(), std::optional(bandwidth::Queue::kFair)}) {
    Conf conf;
    conf.queue = queue;
    const auto largest = [&conf](std::uint64_t rate) {
      return shape_of({rate, 80'000}, conf, kMtu, Ticks{}).largest;
    };
    CHECK(largest(1'000'000) == kPacket);
    CHECK(largest(100'000'000) == 12'500);
    CHECK(largest(520'000'000) == 65'000);
    CHECK(largest(530'000'000) == 0);
    CHECK(largest(10'000'000'000) == 0);
  }
  CHECK(shape({1'000'000, 80'000}).largest == 0);
}

TEST_CASE("the horizon is the time that the queue takes") {
  CHECK(shape({8'000'000, 80'000}).horizon() == milliseconds(35));
  CHECK(shape({8'000'000, 80'000}, with_latency(100)).horizon() == milliseconds(100));
  CHECK(shape({8, 34359738352}).horizon() == std::chrono::hours(1));
}

TEST_CASE("fq_codel has its usual target where a packet takes less than that") {
  const Conf conf;
  const auto fast = fq_codel_of(shape({8'000'000, 80'000}), conf, kMtu);
  CHECK(fast.target == microseconds(5'000));
  CHECK(fast.interval == microseconds(100'000));
  CHECK(fast.memory == 32U << 20);
  // 1 Mbit/s: a packet takes 12 ms. 64 kbit/s: 189 ms.
  CHECK(fq_codel_of(shape({1'000'000, 80'000}), conf, kMtu).target == microseconds(18'168));
  const auto slow = fq_codel_of(shape({64'000, 80'000}), conf, kMtu);
  CHECK(slow.target == microseconds(283'875));
  CHECK(slow.interval == microseconds(567'750));
}

TEST_CASE("fq_codel with a latency is bounded by it") {
  const Conf conf = with_latency(100);
  CHECK(fq_codel_of(shape({100'000'000, 80'000}, conf), conf, kMtu).memory == 2'500'000 + 16'384);
}
