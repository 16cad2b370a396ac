#include "plugins/leases/stale.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "plugins/leases/allocate.h"
#include "plugins/leases/index_update.h"
#include "tests/unit/leases/fixture.h"

namespace leases {

using test::error_of;
using test::ip;
using test::range;
using test::TempDir;
namespace fs = test::fs;

namespace {

/// A node in its second boot, at second 2000, with a /30 that has the one address 10.0.0.2.
class Node {
 public:
  Node() {
    dir.write("stat", "btime 2000\n");
    dir.write("one", "0123456789abcdef0123456789abcdef\n");
    dir.write("other", "fedcba9876543210fedcba9876543210\n");
  }

  Store boot(const std::string& id, const std::string& machine = "one") const {
    Store store = Store::create(dir.path(), "net",
                                Host{.boot_id = id,
                                     .cache_dir = dir.path("cache"),
                                     .stat_file = dir.path("stat"),
                                     .machine_file = dir.path(machine)});
    store.lock();
    return store;
  }
  /// A file of the reference's, written at a time.
  void put(const std::string& content, std::time_t when,
           const std::string& name = "10.0.0.2") const {
    dir.write("net/" + name, content);
    date("net/" + name, when);
  }
  void date(const std::string& name, std::time_t when) const {
    const timespec times[2] = {{when, 0}, {when, 0}};
    REQUIRE(::utimensat(AT_FDCWD, dir.path(name).c_str(), times, 0) == 0);
  }
  /// Whether a new container gets the address; asked for by a request or not.
  bool gives(bool by_request = false, const std::string& machine = "one") const {
    Conf conf;
    conf.sets = {{{range("10.0.0.0/30")}}};
    if (by_request) conf.requested = {ip("10.0.0.2")};
    Store store = boot("boot-2", machine);
    const std::string error = error_of([&] { allocate(store, conf, {"new", "eth0"}); });
    if (error.empty()) CHECK(dir.read("net/10.0.0.2") == "new\r\neth0");
    return error.empty();
  }

  TempDir dir;
};

const std::string kId(64, 'c');  // as containerd and CRI-O make them
constexpr std::time_t kBefore = 1900, kJustBefore = 1990, kAfter = 2100;

}  // namespace

TEST_CASE("stale leases: torn leases are reclaimed, also in this boot") {
  for (const std::string& content : {std::string("ctr\r\n"), std::string("ctr\r"),
                                     std::string("ctr\r\ne\0\0\0", 9), std::string("ct\0\0", 4)}) {
    for (const bool by_request : {false, true}) {
      const Node node;
      node.put(content, kAfter);
      CHECK(node.gives(by_request));
    }
  }
}

TEST_CASE("stale leases: empty files are reclaimed if they are from before the boot") {
  for (const std::string& content : {std::string(), std::string("\n"), std::string(12, '\0')}) {
    for (const bool by_request : {false, true}) {
      const Node node;
      for (const std::time_t when : {kAfter, kJustBefore}) {
        node.put(content, when);
        CHECK_FALSE(node.gives(by_request));
      }
      node.put(content, kBefore);
      CHECK(node.gives(by_request));
    }
  }
}

TEST_CASE("stale leases: what an operator wrote to reserve an address stays") {
  for (const char* content : {"reserved for the printer", "printer", "printer\n", "10.0.0.2",
                              "reserved for the printer\r\n", "\xff\xfe junk", "{}"}) {
    for (const bool by_request : {false, true}) {
      CAPTURE(content);
      const Node node;
      node.put(content, kBefore);
      CHECK_FALSE(node.gives(by_request));
      {
        const Store store = node.boot("boot-1");
        const IndexUpdate update(store);
        store.release({"unknown", "eth0"}, {}, [&] { return IndexUpdate(store).complete(); });
      }
      CHECK_FALSE(node.gives(by_request));  // nor when DEL has noted all that it found
      CHECK(node.dir.read("net/10.0.0.2") == content);
    }
  }
}

TEST_CASE("stale leases: what another machine has in a store that both use is not reclaimed") {
  const Node node;
  for (const char* machine : {"other", "none"}) {
    CAPTURE(machine);
    node.boot("boot-1", machine).reserve(ip("10.0.0.2"), {"ctr", "eth0"});
    node.date("net/10.0.0.2", kBefore);
    for (const bool by_request : {false, true}) CHECK_FALSE(node.gives(by_request));
    node.boot("boot-1", machine).release({"ctr", "eth0"}, {});
  }
  // Nor what may be its, the reference's plugins having made it.
  for (const std::string& content : {std::string("ctr\r\neth0"), kId, std::string()}) {
    node.put(content, kBefore);
    CHECK_FALSE(node.gives());
  }
}

TEST_CASE(
    "stale leases: a machine without an ID reclaims nothing of which it does not know whose it "
    "is") {
  for (const char* machine_id : {"", "uninitialized\n", "0123456789abcdef\n"}) {
    const Node node;
    node.dir.write("none", machine_id);
    node.put("ctr\r\neth0", kBefore);
    CHECK_FALSE(node.gives(false, "none"));
    node.put("", kBefore);
    CHECK_FALSE(node.gives(false, "none"));
    node.boot("boot-1", "none").discard(ip("10.0.0.2"), {});
    node.boot("boot-1", "none").reserve(ip("10.0.0.2"), {"ctr", "eth0"});
    CHECK_FALSE(node.gives(false, "none"));
  }
}

TEST_CASE("stale leases: what a release noted that knew no machines is judged by its time alone") {
  const Node node;
  node.boot("boot-1").reserve(ip("10.0.0.2"), {"ctr", "eth0"});
  for (const auto& one : fs::directory_iterator(node.dir.path("net/.owners"))) {
    if (one.path().filename().string().find(".of.") != std::string::npos) fs::remove(one.path());
  }
  node.date("net/10.0.0.2", kAfter);
  CHECK_FALSE(node.gives());
  node.date("net/10.0.0.2", kBefore);
  CHECK(node.gives());
}

TEST_CASE(
    "stale leases: a file that is no record stays while an owner of this boot is noted for it") {
  const Node node;
  node.boot("boot-2").reserve(ip("10.0.0.2"), {"ctr", "eth0"});
  for (const std::string& content : {std::string(), std::string("ct"), std::string("junk\r\n")}) {
    node.put(content, kBefore);
    CHECK_FALSE(node.gives());
  }
}

TEST_CASE("stale leases: a reservation of an earlier boot is reclaimed with its index entry") {
  for (const bool by_request : {false, true}) {
    const Node node;
    node.boot("boot-1").reserve(ip("10.0.0.2"), {"ctr", "eth0"});
    CHECK(node.gives(by_request));
    CHECK_FALSE(fs::exists(node.dir.path("net/.owners/boot-1")));
    CHECK(test::indexed(node.dir) == 1);
  }
}

TEST_CASE("stale leases: a reservation of this boot is never reclaimed") {
  const Node node;
  node.boot("boot-1").reserve(ip("10.0.0.2"), {"ctr", "eth0"});
  Store store = node.boot("boot-2");
  Conf conf;
  conf.sets = {{{range("10.0.0.0/30")}}};
  CHECK(allocate(store, conf, {"ctr", "eth0"}).size() == 1);  // taken over by its owner
  store.unlock();
  node.put("ctr\r\neth0", kBefore);  // whatever the clock says
  CHECK_FALSE(node.gives());
  CHECK_FALSE(node.gives(true));
}

TEST_CASE("stale leases: where boots cannot be told apart nothing is from an earlier one") {
  const Node node;
  node.boot("unknown").reserve(ip("10.0.0.2"), {"ctr", "eth0"});
  CHECK_FALSE(node.gives());
}

TEST_CASE(
    "stale leases: of the reference's reservations those from before the boot are reclaimed") {
  for (const std::string& content : {std::string("ctr\r\neth0"), kId}) {
    for (const bool by_request : {false, true}) {
      const Node node;
      node.put(content, kAfter);
      CHECK_FALSE(node.gives(by_request));
      node.put(content, kJustBefore);
      CHECK_FALSE(node.gives(by_request));
      node.put(content, kBefore);
      CHECK(node.gives(by_request));
    }
  }
}

TEST_CASE("stale leases: without a boot time the reference's reservations stay") {
  const Node node;
  node.dir.write("stat", "nothing\n");
  node.put("ctr\r\neth0", kBefore);
  CHECK_FALSE(node.gives());
}

TEST_CASE("stale leases: a network namespace in libcni's cache that exists is a sign of life") {
  for (const std::string& content : {kId + "\r\neth0", kId}) {
    const Node node;
    const std::string cached = "cache/net-" + kId + "-eth0";
    node.put(content, kBefore);
    node.dir.write("netns", "");
    node.date("netns", kBefore);
    node.dir.write(cached, R"({"netns": ")" + node.dir.path("netns") + "\"}");
    CHECK_FALSE(node.gives());
    node.dir.write(cached, R"({"netns": ")" + node.dir.path("gone") + "\"}");
    CHECK(node.gives());
  }
}

TEST_CASE(
    "stale leases: a network namespace that is younger than the reservation has only its name") {
  for (const bool noted : {false, true}) {
    const Node node;
    if (noted) node.boot("boot-1").reserve(ip("10.0.0.2"), {"ctr", "eth0"});
    node.put("ctr\r\neth0", kBefore);
    node.dir.write("netns", "");
    node.dir.write("cache/net-ctr-eth0", R"({"netns": ")" + node.dir.path("netns") + "\"}");
    node.date("netns", kBefore - 1);
    CHECK_FALSE(node.gives());
    node.date("netns", kAfter);
    CHECK(node.gives());
  }
}

TEST_CASE(
    "stale leases: a cache file that is broken is no sign of life, at whatever byte it is cut") {
  const std::string whole = R"({"kind": "cniCacheV1", "netns": "/proc/self/ns/net"})";
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Node node;
    node.put("ctr\r\neth0", kBefore);
    node.dir.write("cache/net-ctr-eth0", whole.substr(0, size));
    CHECK(node.gives());
  }
  for (const char* other : {"[]", "null", "{}", R"({"netns": 3})", R"({"netns": ""})"}) {
    const Node node;
    node.put("ctr\r\neth0", kBefore);
    node.dir.write("cache/net-ctr-eth0", other);
    CHECK(node.gives());
  }
}

TEST_CASE("stale leases: the oldest holders come first, three of them") {
  const Node node;
  const std::time_t now = std::time(nullptr);
  node.put("a\r\neth0", now - 10, "10.0.0.2");
  node.put("b\r\neth0", now - 3 * 86400, "10.0.0.3");
  node.put("c", now - 7200, "10.0.0.4");
  node.put("d\r\neth0", now - 600, "10.0.0.5");
  node.dir.write("stat", "btime 0\n");
  const Store store = node.boot("boot-2");
  CHECK(oldest(survey(store, store.used())) ==
        "10.0.0.3 of 'b' 'eth0', 3 days old; 10.0.0.4 of 'c', 2 h old; 10.0.0.5 of 'd' 'eth0', 10 "
        "min old");
}

TEST_CASE("stale leases: a pool left over from before a reboot serves a whole new generation") {
  const Node node;
  Conf conf;
  conf.sets = {{{range("10.0.0.0/28")}}};
  {
    Store store = node.boot("boot-1");
    for (int i = 0; i < 13; ++i) allocate(store, conf, {cni::cat("old", i), "eth0"});
  }
  Store store = node.boot("boot-2");
  for (int i = 0; i < 13; ++i) allocate(store, conf, {cni::cat("new", i), "eth0"});
  CHECK(error_of([&] { allocate(store, conf, {"one-too-many", "eth0"}); }) != "");
  CHECK(survey(store, store.used()).living.size() == 13);
}

}  // namespace leases
