#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <thread>

#include "netlink/netns.h"
#include "netlink/sysctl.h"
#include "netlink/types/error.h"
#include "netlink/types/fd.h"
#include "tests/unit/surroundings.h"

using netlink::cat;
using netlink::Error;
using netlink::Fd;
using netlink::NetNs;

namespace {

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

}  // namespace

TEST_CASE("cat joins texts, characters and numbers") {
  const std::string owned = "b";
  CHECK(cat("a", owned, std::string_view("c"), 4, -5, 6U) == "abc4-56");
}

TEST_CASE("cat prints a character as a character") { CHECK(cat("a", '/', "b") == "a/b"); }

TEST_CASE("an error reads: operation, cause, the kernel's sentence") {
  CHECK(std::string(Error("find link 'eth0'", ENODEV).what()) ==
        "find link 'eth0': no such device");
  CHECK(std::string(
            Error("add route 10.0.0.0/8", ENETUNREACH, "Nexthop has invalid gateway").what()) ==
        "add route 10.0.0.0/8: network is unreachable (kernel: Nexthop has invalid gateway)");
  CHECK(Error("x", EEXIST).error() == EEXIST);
  CHECK(Error("x", EEXIST).code() == std::errc::file_exists);
}

TEST_CASE("an abbreviation at the start of the system's text stays as it is") {
  CHECK(netlink::errno_text(EPERM) == "operation not permitted");
  CHECK(netlink::errno_text(EIO) == "input/output error");
  for (int error = 1; error < 134; ++error) {
    std::string same = std::strerror(error);
    if (std::islower(static_cast<unsigned char>(same[1])) != 0)
      same[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(same[0])));
    CHECK(netlink::errno_text(error) == same);
  }
  CHECK(netlink::errno_text(EL2NSYNC).substr(0, 7) == "level 2");
  CHECK(netlink::errno_text(EMULTIHOP).substr(0, 3) == "mul");
  CHECK(netlink::errno_text(EDOTDOT).substr(0, 3) == "RFS");
}

TEST_CASE("a descriptor is closed once, with its last owner") {
  auto [reader, writer] = surroundings::make_pipe();
  const int number = reader.get();
  Fd other = std::move(reader);
  CHECK_FALSE(reader);
  CHECK(other.get() == number);
  CHECK(is_open(number));
  other = Fd();
  CHECK_FALSE(is_open(number));
  const int kept = writer.release();
  CHECK_FALSE(writer);
  CHECK(is_open(kept));
  ::close(kept);
}

TEST_CASE("read_all reads what comes in pieces, to the end") {
  auto [reader, writer] = surroundings::make_pipe();
  std::thread slow([&w = writer] {
    for (const char* piece : {"one ", "two ", "three"}) {
      netlink::write_all(w.get(), piece, "pipe");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    w.reset();
  });
  CHECK(netlink::read_all(reader.get(), "pipe") == "one two three");
  slow.join();
}

TEST_CASE("write_all writes more than a pipe holds") {
  auto [reader, writer] = surroundings::make_pipe();
  const std::string much(300'000, 'x');
  std::string got;
  std::thread other([&got, &r = reader] { got = netlink::read_all(r.get(), "pipe"); });
  netlink::write_all(writer.get(), much, "pipe");
  writer.reset();
  other.join();
  CHECK(got == much);
}

TEST_CASE("a read or write that fails names the file") {
  CHECK_THROWS_WITH_AS(netlink::read_all(-1, "stdin"), "read 'stdin': bad file descriptor", Error);
  const Fd full = surroundings::open_for_writing("/dev/full");
  CHECK_THROWS_WITH_AS(netlink::write_all(full.get(), "x", "stdout"),
                       "write 'stdout': no space left on device", Error);
}

TEST_CASE("read_file tells an absent file from one that cannot be read") {
  const surroundings::Folder folder;
  CHECK_FALSE(netlink::read_file(folder.file("absent")));
  netlink::write_all(surroundings::open_for_writing(folder.file("there")).get(), "text", "there");
  CHECK(netlink::read_file(folder.file("there")) == "text");
  CHECK_THROWS_AS(netlink::read_file(folder.path()), Error);            // a directory
  CHECK_THROWS_AS(netlink::read_file(folder.file("there/in")), Error);  // ENOTDIR
  surroundings::open_for_writing(folder.file("large"));
  REQUIRE(::truncate(folder.file("large").c_str(), 65 << 20) == 0);
  for (const auto read : {netlink::read_file, netlink::read_regular_file}) {
    CHECK_THROWS_WITH_AS(read(folder.file("large")),
                         cat("read '", folder.file("large"), "': file too large").c_str(), Error);
  }
}

TEST_CASE("a file that is no namespace is refused with a reason") {
  const surroundings::Folder folder;
  const std::string file = folder.file("eth");
  surroundings::open_for_writing(file);
  CHECK_THROWS_WITH_AS(
      NetNs::open(file),
      cat("open network namespace '", file,
          "': invalid argument (kernel: the file is not a network namespace; its mount may be gone "
          "or not propagated)")
          .c_str(),
      Error);
  CHECK_THROWS_WITH_AS(NetNs::open("/proc/self/ns/uts"),
                       doctest::Contains("not a network namespace"), Error);
  CHECK_THROWS_WITH_AS(
      NetNs::open(folder.file("absent")),
      cat("open network namespace '", folder.file("absent"), "': no such file or directory")
          .c_str(),
      Error);
}

TEST_CASE("find gives nothing for a namespace that is gone") {
  const surroundings::Folder folder;
  const std::string file = folder.file("eth");
  surroundings::open_for_writing(file);
  CHECK_FALSE(NetNs::find(""));
  CHECK_FALSE(NetNs::find(file));
  CHECK_FALSE(NetNs::find(folder.file("absent")));
  CHECK(NetNs::find("/proc/self/ns/net"));
}

TEST_CASE("find gives nothing for a namespace of another type, whatever failed before") {
  errno = EMFILE;
  CHECK_FALSE(NetNs::find("/proc/self/ns/mnt"));
}

TEST_CASE("find does not take a namespace for gone because the process has too many files") {
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  CHECK_THROWS_WITH_AS(NetNs::find("/proc/self/ns/net"),
                       "open network namespace '/proc/self/ns/net': too many open files (raise the "
                       "process's limit of open files: ulimit -n)",
                       Error);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
}

TEST_CASE("a FIFO in the place of a namespace does not block") {
  const surroundings::Folder folder;
  REQUIRE(::mkfifo(folder.file("fifo").c_str(), 0600) == 0);
  CHECK_FALSE(NetNs::find(folder.file("fifo")));
}

TEST_CASE("the current namespace is recognised under any name") {
  const surroundings::Folder folder;
  std::filesystem::create_symlink("/proc/self/ns/net", folder.file("link"));
  CHECK(NetNs::is_current("/proc/self/ns/net"));
  CHECK(NetNs::is_current(folder.file("link")));
  CHECK_FALSE(NetNs::is_current("/proc/self/ns/uts"));
  CHECK_FALSE(NetNs::is_current(folder.file("absent")));
  CHECK_FALSE(NetNs::is_current(""));
}

TEST_CASE("a kernel setting is read without its newline, and an absent one is absent") {
  CHECK(netlink::read_sysctl("kernel/ostype") == "Linux");
  CHECK_FALSE(netlink::read_sysctl("net/ipv4/conf/no-such-link/forwarding"));
}

TEST_CASE("a setting that has its value already is not written") {
  CHECK(netlink::ensure_sysctl("kernel/ostype", "Linux"));  // read-only: a write would fail
  CHECK_FALSE(netlink::ensure_sysctl("net/no_such_key", "1"));
  CHECK_THROWS_WITH_AS(netlink::ensure_sysctl("kernel/ostype", "GNU"),
                       doctest::Contains("set sysctl kernel/ostype=GNU: "), Error);
  CHECK(netlink::try_sysctl("kernel/ostype", "Linux"));
  CHECK_FALSE(netlink::try_sysctl("kernel/ostype", "GNU"));
  CHECK_FALSE(netlink::try_sysctl("net/no_such_key", "1"));
}
