#include "plugins/leases/index_update.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libcni/plugin/plugin.h"
#include "plugins/leases/stale.h"
#include "tests/unit/leases/fixture.h"

namespace host_local {

using namespace leases;
extern const cni::Plugin kPlugin;

using leases::test::conf_of;
using leases::test::error_of;
using leases::test::indexed;
using leases::test::ip;
using leases::test::request;
using leases::test::reserved;
using leases::test::TempDir;
namespace fs = leases::test::fs;

namespace {

const std::string kSmall = R"("ranges": [[{"subnet": "10.1.2.0/29"}]])";

/// What is kept of a network, with the verbs as a runtime calls them.
class Network {
 public:
  std::string add(const std::string& id, const std::string& ifname = "eth0") const {
    auto req = request(conf_of(dir, kSmall), id);
    req.ifname = ifname;
    std::string out;
    const std::string error = error_of([&] {
      cni::Undo undo;
      out = kPlugin.verbs.add(req, undo).ips.at(0).cidr.str();
      undo.commit();
    });
    return error.empty() ? out : error;
  }
  void del(const std::string& id, const std::string& prev = {}) const {
    const std::string rest =
        prev.empty()
            ? ""
            : R"("prevResult": {"cniVersion": "1.1.0", "ips": [{"address": ")" + prev + "\"}]}, ";
    kPlugin.verbs.del(request(conf_of(dir, kSmall, rest), id));
  }
  void gc() const {
    cni::collect(kPlugin, request(conf_of(dir, kSmall, R"("cni.dev/valid-attachments":
        [{"containerID": "ref", "ifname": "eth0"}, {"containerID": "a", "ifname": "eth0"}], )")));
  }
  /// Makes the file of a reservation, or writes over it, which leaves the directory as it is.
  void put(const std::string& name, const std::string& content) const {
    dir.write("net/" + name, content);
  }
  Store open(Host host = Host::current()) const {
    Store store = Store::create(dir.path(), "net", std::move(host));
    store.lock();
    return store;
  }
  bool is_complete() const { return open().index().is_complete(); }
  std::size_t noted_for(const Owner& owner) const { return open().index().find(owner).size(); }

  TempDir dir;
};

void backdate(const std::string& path, std::time_t when) {
  const timespec times[2] = {{when, 0}, {when, 0}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

}  // namespace

TEST_CASE("index: a reservation of the reference is a duplicate, as the reference has it") {
  for (const char* content : {"ref\r\neth0", "ref"}) {
    const Network net;
    net.put("10.1.2.4", content);
    CHECK(net.add("ref") ==
          "999 failed to allocate for range 0: 10.1.2.4 has been allocated to ref, duplicate "
          "allocation is not allowed");
    CHECK_FALSE(fs::exists(net.dir.path("net/.owners")));  // refused without a trace
    CHECK(net.add("other") == "10.1.2.2/29");
    CHECK(net.add("ref").starts_with("999 "));
    net.del("ref");
    CHECK(reserved(net.dir) == "10.1.2.2");
    CHECK(net.add("ref") == "10.1.2.3/29");
    CHECK(indexed(net.dir) == 2);
  }
}

TEST_CASE("index: another interface is no duplicate, unless the record names none") {
  const Network net;
  net.put("10.1.2.4", "ref\r\neth0");
  CHECK(net.add("ref", "eth1") == "10.1.2.2/29");
  net.put("10.1.2.5", "old");
  CHECK(net.add("old", "eth1").find("10.1.2.5 has been allocated to old") != std::string::npos);
}

TEST_CASE("index: once noted, nobody's reservation is read again") {
  const Network net;
  net.put("10.1.2.4", "ref\r\neth0");
  net.del("unknown");
  CHECK(indexed(net.dir) == 1);
  net.put("10.1.2.4", "who\r\neth0");  // in place: who reads it takes it for who's
  SUBCASE("by a DEL of one unknown") {
    net.del("who");
    net.del("who");
  }
  SUBCASE("by an ADD and a second DEL") {
    CHECK(net.add("who") == "10.1.2.2/29");
    net.del("who");
    net.del("who");
  }
  SUBCASE("after a GC") {
    net.put("10.1.2.4", "ref\r\neth0");
    net.gc();
    net.put("10.1.2.4", "who\r\neth0");
    net.del("who");
  }
  CHECK(reserved(net.dir) == "10.1.2.4");
  net.del("who", "10.1.2.4/29");
  CHECK(reserved(net.dir) == "");
}

TEST_CASE("index: what the reference does is seen, however soon after us") {
  const Network net;
  for (int i = 0; i < 100; ++i) {
    net.add("a");
    net.put("10.1.2.77", "ref\r\neth0");
    REQUIRE_FALSE(net.is_complete());
    net.del("ref");
    REQUIRE(reserved(net.dir).find("10.1.2.77") == std::string::npos);
    REQUIRE(net.is_complete());
    net.del("a");
    REQUIRE(net.is_complete());
  }
}

TEST_CASE("index: ADD, DEL, GC and the undo of an ADD leave the index complete") {
  const Network net;
  net.put("10.1.2.4", "ref\r\neth0");
  {
    cni::Undo undo;
    kPlugin.verbs.add(request(conf_of(net.dir, kSmall), "undone"), undo);
    CHECK(net.is_complete());
  }
  CHECK(net.is_complete());
  CHECK(reserved(net.dir) == "10.1.2.4");
  net.add("a");
  net.add("b");
  CHECK(net.is_complete());
  net.del("b");
  CHECK(net.is_complete());
  net.add("c");
  net.gc();
  CHECK(net.is_complete());
  CHECK(reserved(net.dir) == "10.1.2.3 10.1.2.4");  // .3 is a's
  net.add("ref");                                   // a duplicate
  CHECK(net.is_complete());
}

TEST_CASE("index: after a kill, wherever it was, all is looked through again") {
  const Network net;
  net.add("a");
  const pid_t child = ::fork();
  if (child == 0) {
    const Store store = net.open();
    IndexUpdate update(store);
    store.reserve(ip("10.1.2.5"), {"killed", "eth0"});
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  CHECK_FALSE(net.is_complete());
  fs::create_symlink("half", net.dir.path("net/.owners/.seen"));
  net.del("killed");  // known: no reason to look
  CHECK_FALSE(fs::is_symlink(net.dir.path("net/.owners/.seen")));
  CHECK_FALSE(net.is_complete());
  net.del("killed");
  CHECK(net.is_complete());
  CHECK(indexed(net.dir) == 1);
}

TEST_CASE("index: an ADD killed before its reservation hides nobody who gets the address then") {
  const Network net;
  net.add("a");
  net.open().index().add({"killed", "eth0"}, ip("10.1.2.4"));
  net.put("10.1.2.4", "ref\r\neth0");
  CHECK(net.add("ref").starts_with("999 "));
  net.del("killed");
  CHECK(reserved(net.dir) == "10.1.2.2 10.1.2.4");
  net.del("ref");
  CHECK(reserved(net.dir) == "10.1.2.2");
}

TEST_CASE("index: a DEL of the reference killed between the note and the reservation is seen") {
  const Network net;
  net.add("a");
  const Store store = net.open();
  store.index().remove(store.index().find({"a", "eth0"}).at(0));
  CHECK_FALSE(store.index().is_complete());
}

TEST_CASE("index: what is from before the boot is noted as that: no duplicate, still reclaimed") {
  if (Host::current().machine() == kUnknownMachine) {
    MESSAGE("skipped: this machine has no /etc/machine-id");
    return;
  }
  const Network net;
  for (const char* name : {"10.1.2.2", "10.1.2.3", "10.1.2.4"}) {
    net.put(name, std::string("ref") + name + "\r\neth0");
    backdate(net.dir.path(std::string("net/") + name), 1000);
  }
  net.put("10.1.2.5", "");
  backdate(net.dir.path("net/10.1.2.5"), 1000);
  net.put("10.1.2.6", "torn\r\n");
  CHECK(net.add("a") == "10.1.2.2/29");  // all is used: the dead are reclaimed
  CHECK(reserved(net.dir) == "10.1.2.2");
  for (const char* name : {"10.1.2.3", "10.1.2.4"}) {
    net.put(name, std::string("ref") + name + "\r\neth0");
    backdate(net.dir.path(std::string("net/") + name), 1000);
  }
  net.del("unknown");
  CHECK(net.is_complete());
  const Store store = Store::create(net.dir.path(), "net", Host::current());
  for (const auto& entry : store.index().find({"ref10.1.2.3", "eth0"})) {
    CHECK(store.index().origin_of(entry) == Origin::kEarlier);
  }
  CHECK(survey(store, store.used()).dead.size() == 2);
  CHECK(net.add("ref10.1.2.3") == "10.1.2.3/29");  // freed, and the next to give
  net.del("ref10.1.2.4");
  CHECK(reserved(net.dir) == "10.1.2.2 10.1.2.3");
  CHECK_FALSE(fs::exists(net.dir.path("net/.owners/earlier")));
}

TEST_CASE("index: another boot looks through everything again") {
  const Network net;
  net.add("a");
  CHECK(net.is_complete());
  CHECK_FALSE(net.open({.boot_id = "next"}).index().is_complete());
}

TEST_CASE("index: DEL makes no index where there is nothing to note") {
  const Network net;
  net.del("a");
  CHECK_FALSE(fs::exists(net.dir.path("net")));
  net.put("last_reserved_ip.0", "10.1.2.2");
  net.put("10.1.2.4", "");
  net.put("10.1.2.5", " \n");
  REQUIRE(::mkfifo(net.dir.path("net/10.1.2.6").c_str(), 0600) == 0);
  net.del("a");
  net.gc();
  CHECK_FALSE(fs::exists(net.dir.path("net/.owners")));
  net.put("10.1.2.3", "ref\r\neth0");
  net.del("a");
  CHECK(net.is_complete());
  CHECK(net.noted_for({"ref", "eth0"}) == 1);
}

TEST_CASE("index: a mark that cannot be written costs a look, not the verb") {
  const Network net;
  net.put("10.1.2.4", "ref\r\neth0");
  fs::create_directories(net.dir.path("net/.owners/seen"));
  CHECK(net.add("a") == "10.1.2.2/29");
  CHECK_FALSE(net.is_complete());
  CHECK(net.add("ref").starts_with("999 "));
  net.del("a");
  net.del("ref");
  net.del("ref");
  CHECK(reserved(net.dir) == "");
}

TEST_CASE("index: what cannot be noted is still found by DEL, and ADD goes on") {
  const Network net;
  net.put("10.1.2.4", "ref\r\neth0");
  net.put(".owners", "not a directory");
  net.del("unknown");
  CHECK(reserved(net.dir) == "10.1.2.4");
  net.del("ref");
  CHECK(reserved(net.dir) == "");
}

TEST_CASE("index: a bare record goes with any interface, after the full ones") {
  const Network net;
  net.put("10.1.2.3", "ref\r\neth0");
  net.put("10.1.2.4", "ref");
  net.put("10.1.2.5", "re");
  net.del("unknown");
  CHECK(indexed(net.dir) == 3);
  net.del("ref");
  CHECK(reserved(net.dir) == "10.1.2.4 10.1.2.5");
  net.del("ref");
  CHECK(reserved(net.dir) == "10.1.2.5");
  CHECK(indexed(net.dir) == 1);
}

}  // namespace host_local
