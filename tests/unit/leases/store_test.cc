#include "plugins/leases/store.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "libcni/common/hash.h"
#include "tests/unit/leases/fixture.h"

namespace leases {

using test::error_of;
using test::indexed;
using test::ip;
using test::reserved;
using test::TempDir;
namespace fs = test::fs;

namespace {

const Host kHost{.boot_id = "boot-1", .cache_dir = "/none", .stat_file = "/none"};
const Owner kOwner{"ctr", "eth0"};

Store make(const TempDir& dir, const Host& host = kHost) {
  Store store = Store::create(dir.path(), "net", host);
  store.lock();
  return store;
}

std::string link_of(const Owner& owner) {
  return "net/.owners/boot-1/" + cni::sha512_hex(record_of(owner)).substr(0, 32);
}

unsigned mode_of(const std::string& path) {
  struct stat info;
  REQUIRE(::lstat(path.c_str(), &info) == 0);
  return info.st_mode & 0777;
}

}  // namespace

TEST_CASE("owner: full and bare records are read, torn ones and garbage are not") {
  CHECK(owner_in("ctr\r\neth0") == Owner{"ctr", "eth0"});
  CHECK(owner_in(" ctr\r\neth0\n") == Owner{"ctr", "eth0"});
  CHECK(owner_in("ctr\n") == Owner{"ctr", ""});
  for (const auto* bad : {"", " ", "ctr\r", "ctr\r\n", "c t", "\x01", "ctr\r\ne/0", "ctr\r\na b"}) {
    CHECK_FALSE(owner_in(bad));
  }
  CHECK_FALSE(owner_in(std::string(9, '\0')));
  CHECK_FALSE(owner_in(std::string("ctr\r\net\0\0", 9)));
}

TEST_CASE("store: a reservation is the reference's, byte for byte, and has an index entry") {
  const TempDir dir;
  Store store = make(dir);
  CHECK(store.reserve(ip("10.0.0.2"), kOwner));
  CHECK(store.reserve(ip("2001:db8::2"), kOwner));
  CHECK_FALSE(store.reserve(ip("10.0.0.2"), Owner{"other", "eth0"}));
  CHECK(dir.read("net/10.0.0.2") == "ctr\r\neth0");
  CHECK(dir.read("net/2001:db8::2") == "ctr\r\neth0");
  CHECK(mode_of(dir.path("net/10.0.0.2")) == 0600);
  CHECK(fs::read_symlink(dir.path(link_of(kOwner) + ".0")) == "../../10.0.0.2");
  CHECK(fs::read_symlink(dir.path(link_of(kOwner) + ".1")) == "../../2001:db8::2");
  CHECK(dir.read(link_of(kOwner) + ".0") == "ctr\r\neth0");  // what the reference reads
  CHECK(indexed(dir) == 2);
  store.keep_last_reserved(0, ip("10.0.0.2"));
  CHECK(dir.read("net/last_reserved_ip.0") == "10.0.0.2");
  CHECK(mode_of(dir.path("net/last_reserved_ip.0")) == 0600);
  CHECK(store.last_reserved(0) == ip("10.0.0.2"));
  CHECK_FALSE(store.last_reserved(1));
}

TEST_CASE("store: without O_TMPFILE a reservation is still whole, and taken is taken") {
  const TempDir dir;
  const Store store = make(dir);
  CHECK(store.dir().publish_aside("10.0.0.2", "a\r\neth0"));
  CHECK_FALSE(store.dir().publish_aside("10.0.0.2", "b\r\neth0"));
  CHECK(dir.read("net/10.0.0.2") == "a\r\neth0");
  CHECK(mode_of(dir.path("net/10.0.0.2")) == 0600);
  CHECK_FALSE(dir.has("net/.new"));
}

TEST_CASE("store: release frees all that the owner has and nothing else") {
  const TempDir dir;
  Store store = make(dir);
  store.reserve(ip("10.0.0.2"), kOwner);
  store.reserve(ip("10.0.0.3"), Owner{"ctr", "eth1"});
  store.reserve(ip("10.0.0.4"), kOwner);
  CHECK(store.release(kOwner, {}));
  CHECK(reserved(dir) == "10.0.0.3");
  CHECK(indexed(dir) == 1);
  CHECK_FALSE(store.release(kOwner, {}));
}

TEST_CASE("store: an owner who is indexed is found without reading the others' reservations") {
  const TempDir dir;
  Store store = make(dir);
  store.reserve(ip("10.0.0.2"), kOwner);
  // Reading this would wait for a writer or fail, and no other file may be opened either.
  for (const char* name : {"net/10.0.0.1", "net/10.0.0.3", "net/10.0.0.9"}) {
    dir.write(name, "x\r\neth0");
    fs::last_write_time(dir.path(name), fs::file_time_type{});
  }
  const auto accessed = [&dir](const char* name) {
    struct stat info;
    REQUIRE(::stat(dir.path(name).c_str(), &info) == 0);
    return info.st_atim.tv_sec;
  };
  const timespec past[2] = {{1, 0}, {1, 0}};  // atime before mtime: relatime updates it
  for (const char* name : {"net/10.0.0.1", "net/10.0.0.3", "net/10.0.0.9"}) {
    ::utimensat(AT_FDCWD, dir.path(name).c_str(), past, 0);
  }
  CHECK(store.owned(kOwner, {}).size() == 1);
  CHECK(store.release(kOwner, {}));
  for (const char* name : {"net/10.0.0.1", "net/10.0.0.3", "net/10.0.0.9"}) {
    CHECK(accessed(name) == 1);
  }
}

TEST_CASE("store: reservations of the reference are found, full records before bare IDs") {
  const TempDir dir;
  dir.write("net/10.0.0.2", "ctr\r\neth0");
  dir.write("net/10.0.0.3", "ctr");
  dir.write("net/10.0.0.4", " ctr\n");
  Store store = make(dir);
  CHECK(store.owned(kOwner, {}) == std::vector<Ip>{ip("10.0.0.2")});
  CHECK(store.release(kOwner, {}));
  CHECK(reserved(dir) == "10.0.0.3 10.0.0.4");
  CHECK(store.release(kOwner, {}));
  CHECK(reserved(dir) == "");
}

TEST_CASE("store: an ID that looks like an address frees neither last_reserved_ip nor the lock") {
  const TempDir dir;
  Store store = make(dir);
  store.keep_last_reserved(0, ip("10.0.0.2"));
  CHECK_FALSE(store.release(Owner{"10.0.0.2", "eth0"}, {}));
  CHECK(dir.has("net/last_reserved_ip.0"));
}

TEST_CASE("store: a hint frees what the owner has, never what another has") {
  const TempDir dir;
  Store store = make(dir);
  store.reserve(ip("10.0.0.2"), kOwner);
  dir.write("net/10.0.0.7", "ctr\r\neth0");
  dir.write("net/10.0.0.8", "ctr2\r\neth0");
  CHECK(store.release(kOwner, {ip("10.0.0.7"), ip("10.0.0.8"), ip("10.0.0.9")}));
  CHECK(reserved(dir) == "10.0.0.8");
}

TEST_CASE("store: a stale index entry does not free another's address") {
  const TempDir dir;
  Store store = make(dir);
  store.reserve(ip("10.0.0.2"), kOwner);
  fs::remove(dir.path("net/10.0.0.2"));
  store.reserve(ip("10.0.0.2"), Owner{"other", "eth0"});
  CHECK(store.release(kOwner, {}));
  CHECK(reserved(dir) == "10.0.0.2");
  CHECK(indexed(dir) == 1);
}

TEST_CASE("store: wherever an ADD is killed, DEL leaves nothing") {
  const TempDir dir;
  Store store = make(dir);
  SUBCASE("after the index entry") { store.index().add(kOwner, ip("10.0.0.2")); }
  SUBCASE("while a file is written aside") { dir.write("net/.new", "ct"); }
  SUBCASE("while the last reserved address is written") { dir.write("net/.last", "10."); }
  SUBCASE("after the reservation") { store.reserve(ip("10.0.0.2"), kOwner); }
  store.release(kOwner, {});
  CHECK(reserved(dir) == "");
  CHECK(indexed(dir) == 0);
  CHECK_FALSE(dir.has("net/.new"));
  CHECK_FALSE(dir.has("net/.last"));
}

TEST_CASE("store: a torn reservation of the owner goes with DEL, at whatever byte it is cut") {
  const std::string record = record_of(kOwner);
  for (std::size_t size = 0; size <= record.size(); ++size) {
    const TempDir dir;
    Store store = make(dir);
    store.reserve(ip("10.0.0.2"), kOwner);
    fs::resize_file(dir.path("net/10.0.0.2"), size);
    CHECK(store.release(kOwner, {}));
    CHECK(reserved(dir) == "");
    store.reserve(ip("10.0.0.2"), kOwner);
    dir.write("net/10.0.0.2", record.substr(0, size) + std::string(record.size() - size, '\0'));
    CHECK(store.release(kOwner, {}));
    CHECK(reserved(dir) == "");
  }
}

TEST_CASE("store: what was noted in an earlier boot is found, and its empty directory removed") {
  const TempDir dir;
  dir.write("machine", std::string(32, 'a') + "\n");  // a minimal system has no /etc/machine-id
  Host host = kHost;
  host.machine_file = dir.path("machine");
  host.boot_id = "boot-0";
  make(dir, host).reserve(ip("10.0.0.2"), kOwner);
  host.boot_id = "boot-1";
  Store store = make(dir, host);
  CHECK(store.index().origin_of(store.index().find(kOwner).at(0)) == Origin::kEarlier);
  CHECK(store.release(kOwner, {}));
  CHECK(reserved(dir) == "");
  CHECK_FALSE(fs::exists(dir.path("net/.owners/boot-0")));
}

TEST_CASE("store: gaps in the numbers of the index are looked over") {
  const TempDir dir;
  Store store = make(dir);
  for (const char* one : {"10.0.0.2", "10.0.0.3", "10.0.0.4"}) store.reserve(ip(one), kOwner);
  fs::remove(dir.path(link_of(kOwner) + ".0"));
  fs::remove(dir.path(link_of(kOwner) + ".1"));
  CHECK(store.index().find(kOwner).size() == 1);
}

TEST_CASE(
    "store: the last address is written over where it fits, else replaced; nothing else is hit") {
  const TempDir dir;
  Store store = make(dir);
  const std::string file = dir.path("net/last_reserved_ip.0");
  const auto inode = [&] {
    struct stat info {};
    REQUIRE(::stat(file.c_str(), &info) == 0);
    return info.st_ino;
  };
  store.keep_last_reserved(0, ip("10.0.0.9"));
  const auto first = inode();
  store.keep_last_reserved(0, ip("10.0.0.10"));  // longer
  CHECK(dir.read("net/last_reserved_ip.0") == "10.0.0.10");
  CHECK(inode() == first);
  store.keep_last_reserved(0, ip("10.0.0.1"));  // shorter: what was there would show behind it
  CHECK(dir.read("net/last_reserved_ip.0") == "10.0.0.1");
  fs::create_hard_link(file, dir.path("another"));
  store.keep_last_reserved(0, ip("10.0.0.2"));
  CHECK(dir.read("net/last_reserved_ip.0") == "10.0.0.2");
  CHECK(dir.read("another") == "10.0.0.1");
  fs::create_symlink(dir.path("another"), dir.path("net/last_reserved_ip.1"));
  store.keep_last_reserved(1, ip("10.0.0.2"));
  CHECK(dir.read("another") == "10.0.0.1");
  CHECK(store.last_reserved(1) == ip("10.0.0.2"));
}

TEST_CASE("store: symbolic links inside the directory are not followed") {
  const TempDir dir;
  const TempDir outside;
  outside.write("secret", "ctr\r\neth0");
  Store store = make(dir);
  fs::create_symlink(outside.path("secret"), dir.path("net/10.0.0.2"));
  CHECK_FALSE(store.read(ip("10.0.0.2")));
  CHECK_FALSE(store.reserve(ip("10.0.0.2"), kOwner));
  fs::create_symlink(outside.path("last"), dir.path("net/.last"));
  store.keep_last_reserved(0, ip("10.0.0.2"));  // refused, noted, not fatal
  CHECK_FALSE(fs::exists(outside.path("last")));
  CHECK_FALSE(store.release(kOwner, {ip("10.0.0.2")}));
  CHECK(outside.has("secret"));
}

TEST_CASE("store: a FIFO or directory with an address for a name holds nothing up") {
  const TempDir dir;
  Store store = make(dir);
  REQUIRE(::mkfifo(dir.path("net/10.0.0.2").c_str(), 0600) == 0);
  fs::create_directory(dir.path("net/10.0.0.3"));
  CHECK_FALSE(store.release(kOwner, {}));
  CHECK_FALSE(store.reserve(ip("10.0.0.2"), kOwner));
  CHECK_FALSE(store.reserve(ip("10.0.0.3"), kOwner));
}

TEST_CASE("store: where the last address is not to be read the search begins at the first") {
  const TempDir dir;
  Store store = make(dir);
  fs::create_directory(dir.path("net/last_reserved_ip.0"));
  CHECK_FALSE(store.last_reserved(0));
  dir.write("net/last_reserved_ip.1", "10.0.0.7\n");
  CHECK(store.last_reserved(1) == ip("10.0.0.7"));
  dir.write("net/last_reserved_ip.2", "nobody");
  CHECK_FALSE(store.last_reserved(2));
}

TEST_CASE("store: the path to it may have symbolic links, and its directories have mode 0755") {
  const TempDir dir;
  const TempDir target;
  fs::create_directory_symlink(target.path(), dir.path("link"));
  const mode_t old = ::umask(022);
  Store::create(dir.path("link/a/b"), "net", kHost).lock();
  ::umask(old);
  CHECK(target.has("a/b/net/lock"));
  CHECK(mode_of(target.path("a/b/net")) == 0755);
  CHECK_FALSE(Store::open(dir.path(), "other", kHost));
  CHECK_FALSE(Store::open(dir.path("none"), "net", kHost));
}

TEST_CASE("lock: who waits too long is told the holder, and nothing is polled") {
  const TempDir dir;
  Store mine = make(dir);
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  mine.unlock();
  const pid_t child = ::fork();
  if (child == 0) {
    const Store held = make(dir);
    [[maybe_unused]] const auto n = ::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  const std::string text = error_of([&] { mine.lock(std::chrono::milliseconds(300)); });
  CHECK(text.starts_with(cni::cat("11 lock '", dir.path("net/lock"), "': not free after 0 s")));
  CHECK(text.find(cni::cat("held by process ", child, " (")) != std::string::npos);
  ::kill(child, SIGKILL);
  mine.lock(std::chrono::milliseconds(5000));  // comes free while it waits
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_CASE("host: the boot is known, and what cannot be read is unknown") {
  CHECK(Host::current().boot_id.size() == 36);
  CHECK(Host{.boot_id = "b"}.boot_time().value_or(0) > 0);
  CHECK_FALSE(kHost.boot_time());
  const TempDir dir;
  dir.write("stat", "cpu 1\nbtime 12345\nx");
  CHECK(Host{.boot_id = "b", .stat_file = dir.path("stat")}.boot_time() == 12345);
}

}  // namespace leases
