#include "plugins/bandwidth/edt_program.h"

#include <doctest/doctest.h>

#include "libcni/common/error.h"
#include "netlink/types/error.h"

using bandwidth::edt::constants_of;
using bandwidth::edt::Limit;
using bandwidth::edt::packet_size_of;
using bandwidth::edt::queue_of;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kMax = ~std::uint64_t{0}, kSecond = 1'000'000'000;
constexpr unsigned kMtu = 1500, kDefault = 65536;

std::uint64_t credit(std::uint64_t rate, std::uint64_t burst) {
  return constants_of({rate, burst, 1s}).credit;
}

}  // namespace

TEST_CASE("a program's constants are the limit's, in nanoseconds") {
  const auto constants = constants_of({.rate = 1'250'000, .burst = 10'000, .horizon = 500ms});
  CHECK(constants.rate == 1'250'000);
  CHECK(constants.credit == 8'000'000);
  CHECK(constants.horizon == 500'000'000);
  CHECK(constants.latest == 1'500'000'000);
}

TEST_CASE("the time of a burst is exact, and never out of the program's range") {
  CHECK(credit(3, 1) == 333'333'333);
  CHECK(credit(3, 10) == 3'333'333'333);
  CHECK(credit(125'000, 536'870'911) == 4'294'967'288'000);  // Kubernetes' at 1 Mbit/s
  CHECK(credit(kMax / 8, kMax) == 8 * kSecond);              // a rate that it keeps from overflow
  CHECK(credit(40'000'000'000, 39'999'999'999) == 999'999'999);
  CHECK(credit(1, kMax) == std::uint64_t{1} << 61);
  CHECK(credit(1, 0) == 0);
}

TEST_CASE("what no limit may be is not divided by") {
  CHECK(constants_of({.rate = 0, .burst = 5, .horizon = 1s}).rate == 1);
  CHECK(constants_of({.rate = 1, .burst = 5, .horizon = -1s}).horizon == 0);
  CHECK(constants_of({.rate = 1, .burst = 5, .horizon = 48h}).horizon == 3600 * kSecond);
  CHECK(constants_of({.rate = kMax, .burst = 5, .horizon = 1s}).rate == std::uint64_t{1} << 62);
}

TEST_CASE("the queue holds what the program accepts, of any usual size, and paces nobody") {
  const auto queue = queue_of({.rate = 1'250'000, .burst = 10'000, .horizon = 500ms});
  CHECK(queue.limit == 7323);  // 1.5 s, in packets of 256 bytes
  CHECK(queue.flow_limit == queue.limit);
  CHECK(queue.horizon == 2500ms);
  CHECK(queue.horizon_drop == true);
  CHECK(queue.pacing == false);
  CHECK(queue_of({.rate = 1, .burst = 0, .horizon = 1ms}).limit == 1000);
  const auto large = queue_of({.rate = kMax, .burst = kMax, .horizon = 48h});
  CHECK(large.limit == 1'000'000);
  CHECK(large.horizon == 3602s);  // fits the kernel's 32 bits of microseconds
}

TEST_CASE("packets are as large as a millisecond of the rate") {
  const auto size = [](std::uint64_t rate, unsigned mtu = kMtu, unsigned before = kDefault) {
    return packet_size_of({.rate = rate, .burst = 0, .horizon = 1s}, mtu, before);
  };
  CHECK(size(12'500'000) == 12'500);
  CHECK(size(125'000'000) == kDefault);
  CHECK(size(kMax) == kDefault);
  CHECK(size(1'250'000) == 3512);  // two frames, and what TCP leaves for headers
  CHECK(size(1, 9000) == 18'512);
  CHECK(size(1, 65535) == kDefault);
  CHECK(size(12'500'000, kMtu, 8000) == 8000);        // never larger than it was
  CHECK(size(12'500'000, kMtu, 200'000) == 200'000);  // somebody's choice
  CHECK(size(12'500'000, kMtu, 0) == 0);              // the kernel did not say
}

TEST_CASE("a build without eBPF says so, one with it has a program") {
  if (netlink::bpf::is_built_in()) {
    CHECK(bandwidth::edt::object().size() > 1000);
    return;
  }
  CHECK(bandwidth::edt::object().empty());
  CHECK(bandwidth::edt::unusable() == "built without eBPF (CMake option CNI_BPF=OFF)");
  CHECK_THROWS_AS(bandwidth::edt::load({1, 1, 1s}), netlink::Error);
  netlink::RouteSocket socket;
  CHECK_THROWS_AS(bandwidth::edt::add(socket, {}, {1, 1, 1s}), cni::Error);
}
