#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libcni/plugin/plugin.h"
#include "tests/unit/leases/fixture.h"
#include "tests/unit/libcni/stderr.h"

namespace host_local {

using namespace leases;
extern const cni::Plugin kPlugin;

using leases::test::conf_of;
using leases::test::error_of;
using leases::test::indexed;
using leases::test::request;
using leases::test::reserved;
using leases::test::TempDir;
namespace fs = leases::test::fs;

namespace {

const std::string kSmall = R"("ranges": [[{"subnet": "10.1.2.0/29"}]])";
const std::string kDual =
    R"("ranges": [[{"subnet": "10.1.2.0/24"}, {"subnet": "10.2.2.0/24"}],
                  [{"subnet": "2001:db8:1::/64"}]],
       "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0", "gw": "2001:db8::9"}])";

cni::Result run_add(const cni::Request& request) {
  cni::Undo undo;
  cni::Result result = kPlugin.verbs.add(request, undo);
  undo.commit();
  return result;
}

std::string first_ip(const cni::Request& request) { return run_add(request).ips.at(0).cidr.str(); }

}  // namespace

TEST_CASE("ADD: one address out of each set, with routes and DNS; DEL frees both") {
  const TempDir dir;
  dir.write("resolv.conf", "nameserver 192.0.2.3\nsearch example.com\n");
  const auto req =
      request(conf_of(dir, kDual + R"(, "resolvConf": ")" + dir.path("resolv.conf") + "\""));
  const cni::Result result = run_add(req);
  REQUIRE(result.ips.size() == 2);
  CHECK(result.ips[0] == cni::Address{*Cidr::parse("10.1.2.2/24"), Ip::parse("10.1.2.1")});
  CHECK(result.ips[1] ==
        cni::Address{*Cidr::parse("2001:db8:1::2/64"), Ip::parse("2001:db8:1::1")});
  CHECK(result.routes.size() == 2);
  CHECK(result.interfaces.empty());
  CHECK(result.dns.nameservers == std::vector<std::string>{"192.0.2.3"});
  CHECK(dir.read("net/10.1.2.2") == "ctr\r\neth0");
  CHECK(dir.read("net/last_reserved_ip.0") == "10.1.2.2");
  CHECK(dir.read("net/last_reserved_ip.1") == "2001:db8:1::2");
  CHECK_NOTHROW(kPlugin.verbs.check(req));
  kPlugin.verbs.del(req);
  CHECK(reserved(dir) == "");
  CHECK(indexed(dir) == 0);
  CHECK(dir.has("net/last_reserved_ip.0"));
  CHECK_NOTHROW(kPlugin.verbs.del(req));
  CHECK(error_of([&] { kPlugin.verbs.check(req); }) ==
        "999 host-local: Failed to find address added by container ctr");
}

TEST_CASE("ADD: a resolvConf that is not there fails before anything is reserved") {
  const TempDir dir;
  const auto req = request(conf_of(dir, kSmall + R"(, "resolvConf": "/none/resolv.conf")"));
  CHECK(error_of([&] { run_add(req); }) == "7 open /none/resolv.conf: no such file or directory");
  CHECK_FALSE(fs::exists(dir.path("net")));
}

TEST_CASE("ADD: the reservation is undone when the result cannot be written") {
  const TempDir dir;
  const std::string conf = conf_of(dir, kDual);
  int in[2];
  REQUIRE(::pipe(in) == 0);
  REQUIRE(::write(in[1], conf.data(), conf.size()) > 0);
  ::close(in[1]);
  const int full = ::open("/dev/full", O_WRONLY);
  const cni::Invocation invocation{{{"CNI_COMMAND", "ADD"},
                                    {"CNI_CONTAINERID", "ctr"},
                                    {"CNI_NETNS", "/none"},
                                    {"CNI_IFNAME", "eth0"},
                                    {"CNI_PATH", "/none"}},
                                   in[0],
                                   full};
  CHECK(cni::run(kPlugin, invocation) == 1);
  CHECK(dir.has("net/last_reserved_ip.1"));  // it was that far
  CHECK(reserved(dir) == "");
  CHECK(indexed(dir) == 0);
  ::close(full);
  ::close(in[0]);
}

TEST_CASE("ADD: two networks of one container do not know of each other") {
  const TempDir dir;
  auto one = request(conf_of(dir, kSmall));
  auto two = one;
  two.network = "net2";
  CHECK(first_ip(one) == "10.1.2.2/29");
  CHECK(first_ip(two) == "10.1.2.2/29");
  kPlugin.verbs.del(one);
  CHECK(reserved(dir, "net") == "");
  CHECK(reserved(dir, "net2") == "10.1.2.2");
}

TEST_CASE("ADD: white space around the container ID is trimmed") {
  const TempDir dir;
  run_add(request(conf_of(dir, kSmall), " ctr\n"));
  CHECK(dir.read("net/10.1.2.2") == "ctr\r\neth0");
  kPlugin.verbs.del(request(conf_of(dir, kSmall), "ctr"));
  CHECK(reserved(dir) == "");
}

TEST_CASE("ADD: requested addresses come from CNI_ARGS, args and runtimeConfig") {
  const TempDir dir;
  CHECK(first_ip(request(conf_of(dir, kSmall), "a", "IP=10.1.2.5")) == "10.1.2.5/29");
  CHECK(first_ip(request(conf_of(dir, kSmall, R"("args": {"cni": {"ips": ["10.1.2.4"]}}, )"),
                         "b")) == "10.1.2.4/29");
  CHECK(first_ip(request(conf_of(dir, kSmall, R"("runtimeConfig": {"ips": ["10.1.2.3/8"]}, )"),
                         "c")) == "10.1.2.3/29");
}

TEST_CASE("DEL: needs no valid config and makes no directory") {
  const TempDir dir;
  run_add(request(conf_of(dir, kSmall)));
  SUBCASE("broken range") {
    kPlugin.verbs.del(request(conf_of(dir, R"("subnet": "10.1.2.0/99")")));
  }
  SUBCASE("ranges of the wrong type") {
    kPlugin.verbs.del(request(conf_of(dir, R"("ranges": "x")")));
  }
  SUBCASE("no range") { kPlugin.verbs.del(request(conf_of(dir, R"("type": "host-local")"))); }
  SUBCASE("broken CNI_ARGS") { kPlugin.verbs.del(request(conf_of(dir, kSmall), "ctr", "what?")); }
  SUBCASE("broken prevResult") {
    kPlugin.verbs.del(request(conf_of(dir, kSmall, R"("prevResult": {"ips": "x"}, )")));
  }
  SUBCASE("overlapping sets") {
    kPlugin.verbs.del(request(
        conf_of(dir, R"("subnet": "10.1.2.0/24", "ranges": [[{"subnet": "10.1.2.0/24"}]])")));
  }
  CHECK(reserved(dir) == "");

  auto elsewhere = request(conf_of(dir, kSmall));
  elsewhere.network = "other";
  kPlugin.verbs.del(elsewhere);
  CHECK_FALSE(fs::exists(dir.path("other")));
  CHECK(error_of([&] { kPlugin.verbs.check(elsewhere); }) != "");
  CHECK(error_of([&] { kPlugin.verbs.status(elsewhere); }) == "");
  cni::collect(kPlugin, request(conf_of(dir, kSmall, R"("cni.dev/valid-attachments": [], )")));
  CHECK_FALSE(fs::exists(dir.path("other")));
}

TEST_CASE("DEL: a config without ipam, or with a wrong dataDir, is no error") {
  CHECK_NOTHROW(
      kPlugin.verbs.del(request(R"({"cniVersion": "1.1.0", "name": "no-such-net-of-ours"})")));
  CHECK_NOTHROW(kPlugin.verbs.del(
      request(R"({"cniVersion": "1.1.0", "name": "no-such-net-of-ours", "ipam": 3})")));
  CHECK_NOTHROW(kPlugin.verbs.del(request(
      R"({"cniVersion": "1.1.0", "name": "no-such-net-of-ours", "ipam": {"dataDir": 7}})")));
}

TEST_CASE("DEL: prevResult leads to a reservation that the reference made") {
  const TempDir dir;
  dir.write("net/10.1.2.2", "ctr\r\neth0");
  dir.write("net/10.1.2.3", "ctr2\r\neth0");
  kPlugin.verbs.del(
      request(conf_of(dir, kSmall,
                      R"("prevResult": {"cniVersion": "1.1.0", "ips": [{"address": "10.1.2.2/29"},
                          {"address": "10.1.2.3/29"}]}, )")));
  CHECK(reserved(dir) == "10.1.2.3");
}

TEST_CASE("state: whatever file is cut at whatever byte, DEL succeeds and the next ADD does") {
  std::vector<std::pair<std::string, std::size_t>> cuts;
  {
    const TempDir dir;
    run_add(request(conf_of(dir, kDual)));
    for (const auto& entry : fs::directory_iterator(dir.path("net"))) {
      if (!entry.is_regular_file()) continue;
      for (std::size_t size = 0; size <= entry.file_size(); ++size) {
        cuts.emplace_back(entry.path().filename().string(), size);
      }
    }
  }
  CHECK(cuts.size() > 40);
  for (const auto& cut : cuts) {
    const std::string& name = cut.first;
    const std::size_t size = cut.second;
    CAPTURE(name);
    CAPTURE(size);
    const TempDir dir;
    const auto req = request(conf_of(dir, kDual));
    run_add(req);
    fs::resize_file(dir.path("net/" + name), size);
    const auto other = request(conf_of(dir, kDual), "other");
    CHECK(run_add(other).ips.size() == 2);
    kPlugin.verbs.del(req);
    CHECK(error_of([&] { kPlugin.verbs.check(req); }) != "");
    CHECK(indexed(dir) == 2);
    CHECK(run_add(req).ips.size() == 2);
    kPlugin.verbs.del(req);
    kPlugin.verbs.del(other);
    CHECK(reserved(dir) == "");
  }
}

TEST_CASE("GC: frees what no valid attachment has, in this network") {
  const TempDir dir;
  for (const char* id : {"a", "b", "c"}) run_add(request(conf_of(dir, kDual), id));
  auto elsewhere = request(conf_of(dir, kSmall), "a");
  elsewhere.network = "net2";
  run_add(elsewhere);
  dir.write("net/10.1.2.77", "");
  dir.write("net/10.1.2.78", std::string(3, '\0'));
  dir.write("net/10.1.2.79", "b");
  dir.write("net/10.1.2.80", "gone");
  dir.write("net/10.1.2.81", "b\r\neth1");
  dir.write("net/.new", "half");
  cni::collect(kPlugin, request(conf_of(dir, kDual, R"("cni.dev/valid-attachments":
      [{"containerID": "b", "ifname": "eth0"}], )")));
  // 10.1.2.77, .78 and .80 are no leases, as far as can be told.
  CHECK(reserved(dir) == "10.1.2.3 10.1.2.77 10.1.2.78 10.1.2.79 10.1.2.80 2001:db8:1::3");
  CHECK(reserved(dir, "net2") == "10.1.2.2");
  CHECK(indexed(dir) == 4);  // with the bare records, which it found
  CHECK_FALSE(dir.has("net/.new"));
  cni::collect(kPlugin, request(conf_of(dir, "\"x\": 1", R"("cni.dev/attachments": [], )")));
  CHECK(reserved(dir) == "10.1.2.77 10.1.2.78 10.1.2.79 10.1.2.80");
}

TEST_CASE("GC: an address whose file says nothing stays a valid attachment's by the index") {
  const std::string record = "b\r\neth0";
  const std::string operators = "printer, 2nd floor";
  for (const std::string& text :
       {std::string(), std::string(record.size(), '\0'), record.substr(0, 5), operators}) {
    const TempDir dir;
    for (const char* id : {"a", "b"}) run_add(request(conf_of(dir, kDual), id));
    for (const char* lease : {"net/10.1.2.2", "net/10.1.2.3", "net/2001:db8:1::3"}) {
      dir.write(lease, text);
    }
    cni::collect(kPlugin, request(conf_of(dir, kDual, R"("cni.dev/valid-attachments":
        [{"containerID": "b", "ifname": "eth0"}], )")));
    CHECK(reserved(dir) ==
          (text == operators ? "10.1.2.2 10.1.2.3 2001:db8:1::3" : "10.1.2.3 2001:db8:1::3"));
  }
  const TempDir dir;  // an address that has another owner by now
  run_add(request(conf_of(dir, kSmall), "b"));
  fs::remove(dir.path("net/10.1.2.2"));
  dir.write("net/10.1.2.2", "a\r\neth0");
  run_add(request(conf_of(dir, kSmall), "c"));  // notes it
  cni::collect(kPlugin, request(conf_of(dir, kSmall, R"("cni.dev/valid-attachments":
      [{"containerID": "b", "ifname": "eth0"}, {"containerID": "c", "ifname": "eth0"}], )")));
  CHECK(reserved(dir) == "10.1.2.3");
}

TEST_CASE("GC: of a store that two machines use it frees what this one has") {
  const TempDir dir;
  run_add(request(conf_of(dir, kSmall)));
  Host other = Host::current();
  other.boot_id = "other";
  other.machine_file = dir.path("machine-id");
  dir.write("machine-id", std::string(32, 'a'));
  {
    Store store = Store::create(dir.path(), "net", other);
    store.lock();
    store.reserve(leases::test::ip("10.1.2.5"), {"theirs", "eth0"});
  }
  dir.write("net/10.1.2.6", "reference\r\neth0");
  cni::collect(kPlugin, request(conf_of(dir, kSmall, R"("cni.dev/valid-attachments": [], )")));
  CHECK(reserved(dir) == "10.1.2.5 10.1.2.6");
}

TEST_CASE("GC: a malformed list frees nothing and fails, a missing one frees nothing") {
  const TempDir dir;
  run_add(request(conf_of(dir, kSmall)));
  CHECK_NOTHROW(cni::collect(kPlugin, request(conf_of(dir, kSmall))));
  for (const char* list : {R"("cni.dev/valid-attachments": "all", )",
                           R"("cni.dev/valid-attachments": [{"containerID": "x"}], )",
                           R"("cni.dev/valid-attachments": [null], )"}) {
    CHECK(error_of([&] {
            cni::collect(kPlugin, request(conf_of(dir, kSmall, list)));
          }).starts_with("7 "));
  }
  CHECK(reserved(dir) == "10.1.2.2");
}

TEST_CASE("STATUS: succeeds when a set is used up, with a line in the log that never changes") {
  const TempDir dir;
  const auto req = request(conf_of(dir, kSmall));
  for (const char* id : {"a", "b", "c", "d"}) run_add(request(conf_of(dir, kSmall), id));
  CHECK_NOTHROW(kPlugin.verbs.status(req));
  run_add(request(conf_of(dir, kSmall), "e"));
  const auto noted = [&req] {
    const StderrKept kept;
    kPlugin.verbs.status(req);
    return kept.text();
  };
  constexpr const char* kFull =
      "host-local: no IP addresses available in range set: 10.1.2.1-10.1.2.6\n";
  CHECK(noted() == kFull);
  dir.write("net/10.1.2.4", "");
  CHECK(noted() == kFull);  // noted for a living owner
  kPlugin.verbs.del(request(conf_of(dir, kSmall), "c"));
  dir.write("net/10.1.2.4", "");
  CHECK(noted() == kFull);  // an operator's, as far as can be told
  dir.write("net/10.1.2.4", "torn\r\n");
  CHECK(noted().empty());
}

TEST_CASE("STATUS: fails with 50 where no lease can be written, and with 7 for an invalid config") {
  const TempDir dir;
  dir.write("file", "");
  const auto in_file =
      cni::cat(R"("subnet": "10.1.2.0/24", "dataDir": ")", dir.path(), R"(/file/more")");
  CHECK(error_of([&] { kPlugin.verbs.status(request(conf_of(dir, in_file))); }) ==
        cni::cat("50 ipam.dataDir: write to '", dir.path(), "/file/more/net': not a directory"));
  CHECK(error_of([&] {
          kPlugin.verbs.status(request(conf_of(dir, R"("subnet": "10.0.0.0/31")")));
        }).starts_with("7 "));
}

TEST_CASE("STATUS: two IPv6 sets of 2^64 addresses are not counted through") {
  const TempDir dir;
  CHECK_NOTHROW(
      kPlugin.verbs.status(request(conf_of(dir, R"("ranges": [[{"subnet": "2001:db8::/32"}]])"))));
}

}  // namespace host_local
