#include "plugins/leases/allocate.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "tests/unit/leases/fixture.h"

namespace leases {

using test::error_of;
using test::indexed;
using test::ip;
using test::range;
using test::reserved;
using test::TempDir;
namespace fs = test::fs;

namespace {

const Host kHost{.boot_id = "boot-1", .cache_dir = "/none", .stat_file = "/none"};

Store make(const TempDir& dir, const Host& host = kHost) {
  Store store = Store::create(dir.path(), "net", host);
  store.lock();
  return store;
}

Conf conf(std::vector<RangeSet> sets, std::vector<Ip> requested = {}) {
  Conf out;
  out.sets = std::move(sets);
  out.requested = std::move(requested);
  return out;
}

/// The addresses given to ID, as text; or the error.
std::string give(const Store& store, const Conf& conf, const std::string& id) {
  std::string out;
  const std::string error = error_of([&] {
    for (const auto& a : allocate(store, conf, {id, "eth0"})) out += a.cidr.str() + " ";
  });
  return error.empty() ? out.substr(0, out.size() - 1) : error;
}

}  // namespace

TEST_CASE("allocate: the round robin goes on after the last reserved address") {
  const struct {
    std::vector<const char*> subnets, used;
    const char *last, *expected;
  } cases[] = {
      {{"10.0.0.0/29"}, {}, "", "10.0.0.2/29"},
      {{"2001:db8:1::/64"}, {}, "", "2001:db8:1::2/64"},
      {{"10.0.0.0/30"}, {}, "", "10.0.0.2/30"},
      {{"10.0.0.0/29"}, {"10.0.0.2"}, "", "10.0.0.3/29"},
      {{"10.0.0.0/29"}, {}, "10.0.0.5", "10.0.0.6/29"},
      {{"10.0.0.0/29"}, {}, "10.0.0.6", "10.0.0.2/29"},
      {{"10.0.0.0/29"}, {}, "10.0.1.9", "10.0.0.2/29"},
      {{"10.0.0.0/29"},
       {"10.0.0.2", "10.0.0.4", "10.0.0.5", "10.0.0.6"},
       "10.0.0.3",
       "10.0.0.3/29"},
      {{"10.0.0.0/29"}, {"10.0.0.6"}, "10.0.0.5", "10.0.0.2/29"},
      {{"10.0.0.0/30", "10.0.1.0/30"}, {"10.0.0.2"}, "10.0.0.2", "10.0.1.2/30"},
      {{"10.0.0.0/30", "10.0.1.0/30", "10.0.2.0/30"}, {"10.0.1.2"}, "10.0.2.2", "10.0.0.2/30"},
      {{"10.0.0.0/29"}, {}, "garbage", "10.0.0.2/29"},
  };
  for (const auto& c : cases) {
    const TempDir dir;
    Store store = make(dir);
    RangeSet set;
    for (const char* subnet : c.subnets) set.ranges.push_back(range(subnet));
    for (const char* used : c.used) store.reserve(ip(used), {"other", "eth0"});
    if (*c.last != '\0') dir.write("net/last_reserved_ip.0", c.last);
    CHECK(give(store, conf({set}), "ctr") == c.expected);
    const std::string expected = c.expected;
    CHECK(dir.read("net/last_reserved_ip.0") == expected.substr(0, expected.find('/')));
  }
}

TEST_CASE("allocate: a /29 gives five addresses, then the error says who has them") {
  const TempDir dir;
  Store store = make(dir);
  const Conf c = conf({{{range("192.168.1.0/29")}}});
  for (int i = 2; i <= 6; ++i) {
    CHECK(give(store, c, cni::cat("c", i)) == cni::cat("192.168.1.", i, "/29"));
  }
  try {
    allocate(store, c, {"c7", "eth0"});
    FAIL("a sixth address");
  } catch (const cni::Error& e) {
    CHECK(std::string(e.what()) ==
          "failed to allocate for range 0: no IP addresses available in range set: "
          "192.168.1.1-192.168.1.6");
    CHECK(e.code() == cni::Code::kTryAgainLater);
    CHECK(e.details().starts_with("5 of 5 used, oldest leases: 192.168.1."));
    CHECK(e.details().find("'c2' 'eth0', 0 s old; ") != std::string::npos);
  }
  CHECK(indexed(dir) == 5);
}

TEST_CASE("allocate: a freed address is not the next one given") {
  const TempDir dir;
  Store store = make(dir);
  const Conf c = conf({{{range("10.0.0.0/29")}}});
  CHECK(give(store, c, "a") == "10.0.0.2/29");
  store.release({"a", "eth0"}, {});
  CHECK(give(store, c, "a") == "10.0.0.3/29");
}

TEST_CASE("allocate: explicit ends may be the network's and the broadcast address") {
  const TempDir dir;
  Store store = make(dir);
  const Conf c = conf({{{range("10.0.0.0/30", "10.0.0.0", "10.0.0.3", "10.0.0.1")}}});
  CHECK(give(store, c, "a") == "10.0.0.0/30");
  CHECK(give(store, c, "b") == "10.0.0.2/30");
  CHECK(give(store, c, "c") == "10.0.0.3/30");
}

TEST_CASE("allocate: a long run of used addresses is jumped over") {
  const TempDir dir;
  Store store = make(dir);
  for (unsigned i = 2; i < 200; ++i) store.reserve(ip(cni::cat("10.0.0.", i)), {"x", "eth0"});
  const Conf c = conf({{{range("10.0.0.0/16")}}});
  CHECK(give(store, c, "a") == "10.0.0.200/16");
  CHECK(give(store, conf({{{range("2001:db8::/64")}}}), "b") == "2001:db8::2/64");
}

TEST_CASE("allocate: a second ADD of an attachment is refused, another interface is not") {
  const TempDir dir;
  Store store = make(dir);
  const Conf c = conf({{{range("10.0.0.0/29")}}});
  CHECK(give(store, c, "a") == "10.0.0.2/29");
  CHECK(give(store, c, "a") ==
        "999 failed to allocate for range 0: 10.0.0.2 has been allocated to a, duplicate "
        "allocation is not allowed");
  CHECK(give(store, conf({{{range("10.0.0.0/29")}}}, {ip("10.0.0.5")}), "a").starts_with("999 "));
  CHECK(allocate(store, c, {"a", "eth1"})[0].cidr.ip == ip("10.0.0.3"));
  CHECK(reserved(dir) == "10.0.0.2 10.0.0.3");
}

TEST_CASE("allocate: an index entry without its reservation is no duplicate") {
  const TempDir dir;
  Store store = make(dir);
  const Conf c = conf({{{range("10.0.0.0/29")}}});
  give(store, c, "a");
  fs::remove(dir.path("net/10.0.0.2"));
  CHECK(give(store, c, "a") == "10.0.0.3/29");
  CHECK(indexed(dir) == 1);
}

TEST_CASE("allocate: requested addresses are given, one for each set") {
  const TempDir dir;
  Store store = make(dir);
  const RangeSet v4{{range("10.1.2.0/24"), range("10.1.3.0/24")}};
  const RangeSet v6{{range("2001:db8::/64")}};
  CHECK(give(store, conf({v4, v6}, {ip("2001:db8::99"), ip("10.1.3.77")}), "a") ==
        "10.1.3.77/24 2001:db8::99/64");
  CHECK(dir.read("net/last_reserved_ip.0") == "10.1.3.77");
  CHECK(give(store, conf({v4, v6}, {ip("10.1.2.88"), ip("10.1.2.77")}), "b") ==
        "7 failed to allocate all requested IPs: 10.1.2.77");
  CHECK(give(store, conf({v4}, {ip("10.1.3.77")}), "c") ==
        "11 failed to allocate for range 0: requested IP address 10.1.3.77 is not available in "
        "range set 10.1.2.1-10.1.2.254,10.1.3.1-10.1.3.254");
  CHECK(give(store, conf({v4}, {ip("10.1.2.1")}), "d") ==
        "7 failed to allocate for range 0: requested ip 10.1.2.1 is subnet's gateway");
  CHECK(reserved(dir) == "10.1.3.77 2001:db8::99");
}

TEST_CASE("allocate: a requested address before the start or after the end is refused") {
  const TempDir dir;
  Store store = make(dir);
  const RangeSet set{{range("10.0.0.0/24", "10.0.0.10", "10.0.0.20")}};
  for (const char* outside : {"10.0.0.9", "10.0.0.21"}) {
    CHECK(give(store, conf({set}, {ip(outside)}), "a") ==
          cni::cat("7 failed to allocate all requested IPs: ", outside));
  }
  CHECK(reserved(dir) == "");
}

TEST_CASE(
    "allocate: what an ADD has made is taken back when it fails, what was there before stays") {
  const TempDir dir;
  Store store = make(dir);
  const RangeSet one{{range("10.0.0.0/29")}};
  const RangeSet two{{range("10.0.1.0/30")}};
  REQUIRE(give(store, conf({two}), "a") == "10.0.1.2/30");
  CHECK(give(store, conf({one, two}), "b").find("range 1: no IP addresses") != std::string::npos);
  CHECK(reserved(dir) == "10.0.1.2");
  CHECK(give(store, conf({one, two}), "a").find("duplicate") != std::string::npos);
  CHECK(reserved(dir) == "10.0.1.2");  // the reference frees it
  CHECK(indexed(dir) == 1);
}

TEST_CASE("allocate: undo frees what the ADD has made, and nothing else") {
  const TempDir dir;
  {
    Store store = make(dir);
    give(store, conf({{{range("10.0.0.0/29")}}}), "a");
    give(store, conf({{{range("10.0.1.0/29")}}}), "a");
  }
  const ReleaseMade undo{dir.path(), "net", kHost, {"a", "eth0"}, {ip("10.0.1.2")}};
  undo();
  CHECK(reserved(dir) == "10.0.0.2");
  CHECK(indexed(dir) == 1);
  undo();
  CHECK(undo.describe() == "release the addresses 10.0.1.2 of network 'net'");
}

TEST_CASE("allocate: 64 processes at once get 64 addresses, with and without churn") {
  const TempDir dir;
  std::vector<pid_t> children;
  for (unsigned i = 0; i < 64; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      int failures = 0;
      for (int turn = 0; turn < 5; ++turn) {
        Store store = make(dir);
        const Owner owner{cni::cat("c", i), "eth0"};
        if (give(store, conf({{{range("10.0.0.0/25")}}}), owner.container_id).find('/') ==
            std::string::npos) {
          ++failures;
        }
        if (turn < 4) store.release(owner, {});
      }
      ::_exit(failures);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  std::set<std::string> owners;
  for (const auto& entry : fs::directory_iterator(dir.path("net"))) {
    const std::string name = entry.path().filename().string();
    if (Ip::parse(name)) owners.insert(dir.read("net/" + name));
  }
  CHECK(owners.size() == 64);
  CHECK(indexed(dir) == 64);
}

}  // namespace leases
