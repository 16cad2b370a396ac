// The program of egressMode "edt" on this kernel: what it writes into packets, in test runs; and at
// the egress of a link, in network namespaces of its own. Needs root; exits with 77 without eBPF.
#include "plugins/bandwidth/edt_program.h"

#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "netlink/bpf/loaded.h"
#include "netlink/netns.h"
#include "netlink/route/socket.h"
#include "netlink/tc/filter.h"
#include "netlink/tc/list.h"
#include "netlink/types/error.h"
#include "plugins/bandwidth/edt.h"
#include "tests/netns/node.h"

using namespace bandwidth;
using namespace netlink;
using namespace std::chrono_literals;

namespace {

constexpr std::uint64_t kMs = 1'000'000, kSecond = 1'000'000'000, kEpoch = std::uint64_t{1} << 62;

std::uint64_t now() {
  timespec at{};
  REQUIRE(::clock_gettime(CLOCK_MONOTONIC, &at) == 0);
  return static_cast<std::uint64_t>(at.tv_sec) * kSecond + static_cast<std::uint64_t>(at.tv_nsec);
}

long call_bpf(int command, bpf_attr& attributes) {
  return ::syscall(SYS_bpf, command, &attributes, sizeof attributes);
}

// bpf_attr is a union: an empty one is cleared in all its length.
bpf_attr no_attributes() {
  bpf_attr out;
  std::memset(&out, 0, sizeof out);
  return out;
}

std::uint64_t address_of(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

struct Packet {
  std::uint32_t wire_length = 1000;  // with the headers of all segments
  std::uint32_t copies = 1;
  std::uint64_t wish = 0;  // the departure time that its sender asked for
};

struct Verdict {
  int action = 0;
  std::uint64_t departure = 0;
  bool dropped() const { return action == TC_ACT_SHOT; }
};

// What the program says to the last of the copies.
Verdict run(int program, const Packet& packet) {
  const std::vector<char> bytes(60);
  __sk_buff in{}, out{};
  in.wire_len = packet.wire_length;
  in.tstamp = packet.wish;
  bpf_attr attributes = no_attributes();
  attributes.test.prog_fd = static_cast<std::uint32_t>(program);
  attributes.test.data_in = address_of(bytes.data());
  attributes.test.data_size_in = static_cast<std::uint32_t>(bytes.size());
  attributes.test.repeat = packet.copies;
  attributes.test.ctx_in = address_of(&in);
  attributes.test.ctx_size_in = sizeof in;
  attributes.test.ctx_out = address_of(&out);
  attributes.test.ctx_size_out = sizeof out;
  REQUIRE(call_bpf(BPF_PROG_TEST_RUN, attributes) == 0);
  return {static_cast<int>(attributes.test.retval), out.tstamp};
}

struct Shaper {
  explicit Shaper(const edt::Limit& limit, const Fd* departures = nullptr)
      : object(edt::load(limit, {.departures = departures})),
        program(object.program(edt::kFunction)) {}
  Verdict send(const Packet& packet = {}) const { return run(program, packet); }
  EdtDepartures departures() const {
    const std::uint32_t first = 0;
    EdtDepartures out{};
    bpf_attr attributes = no_attributes();
    attributes.map_fd = static_cast<std::uint32_t>(object.map(edt::kDepartures));
    attributes.key = address_of(&first);
    attributes.value = address_of(&out);
    REQUIRE(call_bpf(BPF_MAP_LOOKUP_ELEM, attributes) == 0);
    return out;
  }
  bpf::Object object;
  int program;
};

// Whether a packet that was sent since then leaves so long after it was sent.
void check_wait(std::uint64_t departure, std::uint64_t since, std::uint64_t wait = 0) {
  CHECK(departure >= since + wait);
  CHECK(departure <= now() + wait);
}

// A pod with a link to the node, where the limit is to be set.
struct Link2 : node::Fresh {
  NetNs node = NetNs::current();
  NetNs pod = NetNs::create();
  RouteSocket inside{pod};

  Link2() {
    RouteSocket().send(add(Veth{{"veth0", *Mac::parse("02:00:00:00:00:01")},
                                {"eth0", *Mac::parse("02:00:00:00:00:02")},
                                pod}));
    REQUIRE(node::run("ip addr add 10.9.0.1/24 dev veth0 && ip link set veth0 up"));
    const NetNs::Entered there(pod);
    REQUIRE(node::run("ip addr add 10.9.0.2/24 dev eth0 && ip link set eth0 up"));
  }
  Link link() { return inside.get("eth0"); }
  std::string tc(const std::string& arguments) const {
    const NetNs::Entered there(pod);
    return node::output_of("tc " + arguments);
  }
  // An answer is waited for as long as a busy machine may need.
  bool ping(int seconds = 10) const {
    const NetNs::Entered there(pod);
    return node::run("ping -c1 -W" + std::to_string(seconds) + " 10.9.0.1 >/dev/null");
  }
};

}  // namespace

TEST_CASE("a burst leaves at once, what comes after it at the rate") {
  // 10 s for each: a busy machine may take some of them from this test.
  constexpr std::uint64_t kEach = 10 * kSecond;
  const Shaper shaper({.rate = 100, .burst = 10'000, .horizon = 1min});
  const std::uint64_t begin = now();
  std::uint64_t first_done = 0;
  for (int i = 0; i < 10; ++i) {
    const std::uint64_t before = now();
    const Verdict verdict = shaper.send();
    CHECK(verdict.action == TC_ACT_UNSPEC);
    check_wait(verdict.departure, before);
    if (i == 0) first_done = now();
  }
  // 110 s of packets, 100 s of credit at the time of the first one.
  const Verdict next = shaper.send();
  CHECK(next.departure >= begin + kEach);
  CHECK(next.departure <= first_done + kEach);
  CHECK(shaper.send({.wire_length = 100}).departure == next.departure + kEach / 10);
}

TEST_CASE("departures keep to any rate, to the nanosecond") {
  struct Row {
    std::uint64_t rate;
    std::uint32_t length;
  };
  for (const Row& row :
       {Row{125'000, 1514}, Row{37'500'000, 1514}, Row{37'500'000, 66}, Row{1'250'000'000, 65226},
        Row{12'500'000'007, 60}, Row{7, 60}, Row{3'333'333, 9014}}) {
    CAPTURE(row.rate);
    CAPTURE(row.length);
    const Shaper shaper({.rate = row.rate, .burst = 0, .horizon = 1h});
    // So much that the clock does not get there before the test ends: 20 s, or 15 large packets.
    const auto ahead =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(20 * row.rate / 65536, 1, 4'000'000));
    if (row.rate > 100'000)
      REQUIRE(!shaper.send({.wire_length = 65536, .copies = ahead}).dropped());
    const Verdict first = shaper.send({.wire_length = row.length});
    const std::uint64_t rest = shaper.departures().remainder;
    for (std::uint32_t sent = 1; sent <= 1000; sent *= 10) {
      Verdict last;
      const std::uint32_t copies = sent == 1 ? 1 : sent - sent / 10;
      if (row.rate == 7 && sent > 100) break;  // beyond the hour
      last = shaper.send({.wire_length = row.length, .copies = copies});
      CHECK(last.action == TC_ACT_UNSPEC);
      CHECK(last.departure - first.departure ==
            (std::uint64_t{sent} * row.length * kSecond + rest) / row.rate);
    }
  }
}

TEST_CASE("what would wait beyond the horizon is dropped, and costs nothing") {
  // 100 ms for each, which is long enough for a busy machine.
  constexpr std::uint64_t kEach = 100 * kMs;
  const Shaper shaper({.rate = 60'000, .burst = 0, .horizon = 10s});
  const std::uint64_t begin = now();
  std::uint64_t accepted = 0;
  Verdict last;
  for (int i = 0; i < 300; ++i) {
    const Verdict verdict = shaper.send({.wire_length = 6000});
    if (verdict.dropped()) continue;
    last = verdict;
    ++accepted;
  }
  CHECK(accepted >= 100);
  CHECK(accepted <= 102 + (now() - begin) / kEach);
  CHECK(last.departure <= now() + 101 * kEach);
  CHECK(shaper.departures().next - kEpoch == last.departure);
  CHECK(shaper.send({.wire_length = 6000, .copies = 300}).dropped());
  std::this_thread::sleep_for(150ms);
  CHECK(!shaper.send({.wire_length = 6000}).dropped());
}

TEST_CASE("a large packet may take longer on its own than the horizon, once") {
  const Shaper shaper({.rate = 100'000, .burst = 0, .horizon = 10ms});
  const std::uint64_t before = now();
  const Verdict large = shaper.send({.wire_length = 65'000});
  CHECK(!large.dropped());
  check_wait(large.departure, before, 650 * kMs);
  CHECK(shaper.send({.wire_length = 60}).dropped());

  const Shaper slow({.rate = 10'000, .burst = 0, .horizon = 10ms});
  CHECK(slow.send({.wire_length = 65'000}).dropped());  // 6.5 s
  CHECK(slow.departures().next == 0);
  CHECK(!slow.send({.wire_length = 60}).dropped());
}

TEST_CASE("an idle pod saves up its burst and no more") {
  const Shaper shaper({.rate = 1'000'000, .burst = 10'000, .horizon = 1s});
  REQUIRE(!shaper.send({.copies = 30}).dropped());
  std::this_thread::sleep_for(60ms);  // 20 of them had to wait
  const std::uint64_t before = now();
  const Verdict ten = shaper.send({.copies = 10});
  check_wait(ten.departure, before);
  check_wait(shaper.send({.copies = 5}).departure, before, 5 * kMs);
}

TEST_CASE("a bucket larger than the machine is old is full") {
  // Kubernetes' burst at 8 kbit/s: six days of it.
  const Shaper shaper({.rate = 1000, .burst = 536'870'911, .horizon = 1min});
  const std::uint64_t before = now();
  check_wait(shaper.send({.wire_length = 65'536, .copies = 8191}).departure, before);
  REQUIRE(!shaper.send({.wire_length = 65'535}).dropped());
  const Verdict last = shaper.send({.wire_length = 10'000});  // ten seconds too much
  check_wait(last.departure, before, 10 * kSecond);
  CHECK(shaper.send({.wire_length = 501}).departure == last.departure + 501 * kMs);
}

TEST_CASE("the sender's own departure time does not count") {
  const Shaper shaper({.rate = 1'000'000, .burst = 10'000, .horizon = 1s});
  const std::uint64_t before = now();
  check_wait(shaper.send({.wish = before + 500 * kMs}).departure, before);
  check_wait(shaper.send({.wish = 1}).departure, before);
}

TEST_CASE("processors that send at once lose no packet's time") {
  constexpr std::uint32_t kCopies = 3'000'000, kLength = 1000;
  constexpr std::uint64_t kRate = 3'000'000'000, kThreads = 4;
  const Shaper shaper({.rate = kRate, .burst = 0, .horizon = 1h});
  REQUIRE(!shaper.send({.wire_length = 65'536, .copies = 2'000'000}).dropped());  // 43 s ahead
  const EdtDepartures before = shaper.departures();
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] { shaper.send({.wire_length = kLength, .copies = kCopies}); });
  }
  for (std::thread& thread : threads) thread.join();
  const EdtDepartures after = shaper.departures();
  const std::uint64_t cost = kThreads * kCopies * kLength * kSecond + before.remainder;
  CHECK(after.next - before.next == cost / kRate);
  CHECK(after.remainder == cost % kRate);
}

TEST_CASE("another rate goes on where the old one was") {
  const Shaper old({.rate = 9'999'991, .burst = 0, .horizon = 1min});
  const Verdict last = old.send({.wire_length = 1001, .copies = 50'000});  // 5 s
  REQUIRE(!last.dropped());
  const Fd departures(::dup(old.object.map(edt::kDepartures)));
  const Shaper faster({.rate = 30'000'000, .burst = 100'000, .horizon = 1min}, &departures);
  CHECK(faster.send({.wire_length = 3000}).departure == last.departure + kMs / 10);
  // What is left over from a division by the old rate would be seconds at the new one.
  const Shaper slower({.rate = 3, .burst = 0, .horizon = 1min}, &departures);
  REQUIRE(!old.send({.wire_length = 1501}).dropped());
  REQUIRE(slower.departures().remainder > 3);
  const std::uint64_t before = slower.departures().next;
  REQUIRE(!slower.send({.wire_length = 60}).dropped());
  CHECK(slower.departures().next - before == 20 * kSecond);
}

TEST_CASE("a program that the verifier refuses is an error with its last words") {
  auto bytes = edt::object();
  std::vector<std::byte> broken(bytes.begin(), bytes.end());
  // The call of bpf_ktime_get_ns becomes one of nothing.
  constexpr unsigned char kCall[] = {0x85, 0, 0, 0, 5, 0, 0, 0};
  const auto call = std::as_bytes(std::span(kCall));
  const auto at = std::search(broken.begin(), broken.end(), call.begin(), call.end());
  REQUIRE(at != broken.end());
  *(at + 5) = std::byte{0x7F};
  bpf::Object program("edt", broken);
  const EdtConstants constants = edt::constants_of({1'000'000, 0, 1s});
  program.set_constants(std::as_bytes(std::span(&constants, 1)));
  try {
    program.load();
    FAIL("it was loaded");
  } catch (const Error& e) {
    const std::string text = e.what();
    CAPTURE(text);
    CHECK(text.starts_with("load program 'edt': invalid argument (kernel: "));
    CHECK(text.find("invalid func") != std::string::npos);
    CHECK(text.find("processed") == std::string::npos);
  }
  CHECK_THROWS_WITH_AS(bpf::Object("edt", broken = {}), "read object 'edt': invalid argument",
                       Error);
}

TEST_CASE("who may not load programs is told so") {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool dropped = ::setgid(65534) == 0 && ::setuid(65534) == 0;
    const auto reason = edt::unusable();
    ::_exit(dropped && reason == "load program 'edt': operation not permitted" ? 0 : 1);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("at the egress of a link every packet meets the program, and others' filters too") {
  Link2 link;
  const Link eth0 = link.link();
  REQUIRE(link.ping());
  {
    const Shaper shaper({.rate = 1'000'000, .burst = 10'000, .horizon = 1s});
    link.inside.send(tc::add(eth0, {tc::kHook, tc::kHookHandle, tc::Clsact{}}));
    link.inside.send(tc::add(eth0, tc::Program{.fd = shaper.program, .name = "here"}));
    CHECK(link.ping());
    CHECK(shaper.departures().next != 0);
  }
  // The filter alone keeps it, and it lets the next filter decide.
  const std::string shown = link.tc("-j filter show dev eth0 egress");
  CAPTURE(shown);
  CHECK(shown.find(R"("bpf_name":"here")") != std::string::npos);
  CHECK(shown.find(R"("direct-action":true)") != std::string::npos);
  CHECK(shown.find(R"("name":"shape")") != std::string::npos);
  CHECK(link.ping());
  REQUIRE(link.tc("filter add dev eth0 egress prio 2 bpf da bytecode '1,6 0 0 2'").empty());
  CHECK(!link.ping(1));
  REQUIRE(link.tc("filter del dev eth0 egress prio 2").empty());
  CHECK(link.ping());

  const Shaper tight({.rate = 1, .burst = 0, .horizon = 1s});
  link.inside.send(tc::replace(eth0, tc::Program{.fd = tight.program, .name = "here"}));
  CHECK(!link.ping(1));
  CHECK(tc::filters(link.inside, eth0, tc::kEgress).size() == 1);
  link.inside.send(
      tc::remove(eth0, tc::Program{.handle = tc::Handle{2}, .name = {}}));  // not this one
  CHECK(tc::filters(link.inside, eth0, tc::kEgress).size() == 1);
  link.inside.send(tc::remove(eth0, tc::Program{}));
  link.inside.send(tc::remove(eth0, tc::Program{}));
  CHECK(tc::filters(link.inside, eth0, tc::kEgress).empty());
  CHECK(link.ping());
}

TEST_CASE("without fq nothing is set, without this plugin's things nothing is removed") {
  Link2 link;
  const Link eth0 = link.link();
  const edt::Limit limit{.rate = 1'000'000, .burst = 10'000, .horizon = 1s};
  CHECK(!edt::remove(link.inside, eth0));
  std::string flaw = edt::missing(link.inside, eth0, limit).value_or("");
  CHECK(flaw == "the root qdisc of 'eth0' is not fq ed7:");
  REQUIRE(link.tc("qdisc add dev eth0 root handle 7: bfifo").empty());
  flaw = edt::missing(link.inside, eth0, limit).value_or("");
  CHECK(flaw == "the root qdisc of 'eth0' is not fq ed7: but bfifo 7:");
  REQUIRE(link.tc("qdisc del dev eth0 root").empty());
  REQUIRE(link.tc("qdisc add dev eth0 clsact").empty());
  REQUIRE(link.tc("filter add dev eth0 egress prio 1 handle 9 bpf bytecode '1,6 0 0 0'").empty());
  const std::string before = link.tc("-j filter show dev eth0 egress");
  const auto reason = edt::unusable();
  if (reason) {
    CAPTURE(*reason);
    CHECK(*reason == "the kernel has no qdisc fq (sch_fq)");
    CHECK_THROWS_WITH_AS(edt::add(link.inside, eth0, limit),
                         "add qdisc fq ed7: of 'eth0': no such file or directory (kernel: "
                         "Specified qdisc kind is unknown; load the module 'sch_fq': modprobe "
                         "sch_fq (CONFIG_NET_SCH_FQ))",
                         Error);
  } else {
    edt::add(link.inside, eth0, limit);
    CHECK(link.ping());
    CHECK(!edt::missing(link.inside, eth0, limit));
    CHECK(edt::remove(link.inside, eth0));
  }
  CHECK(!edt::remove(link.inside, eth0));
  CHECK(link.tc("-j filter show dev eth0 egress") == before);
  CHECK(link.tc("qdisc show dev eth0").find("fq") == std::string::npos);
}

static const node::TestFile kTests(__FILE__, [](doctest::Context&) -> std::string {
  if (!bpf::is_built_in()) return "a build with eBPF";
  return node::unless("tc qdisc add dev lo clsact && tc qdisc del dev lo clsact");
});
