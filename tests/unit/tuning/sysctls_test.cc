#include "plugins/tuning/sysctls.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "libcni/common/error.h"
#include "plugins/tuning/allowlist.h"

using Paths = std::vector<std::string>;
using tuning::complaint_about;
using tuning::paths_of;
using tuning::same_value;

namespace {

bool is_allowed(const std::string& list, const std::string& key) {
  try {
    tuning::require_allowed_by(list, {{key, "1"}});
  } catch (const cni::Error&) {
    return false;
  }
  return true;
}

}  // namespace

TEST_CASE("the separator that comes first separates") {
  CHECK(paths_of("net.ipv4.ip_forward", "eth0") == Paths{"ipv4/ip_forward"});
  CHECK(paths_of("net/ipv4/ip_forward", "eth0") == Paths{"ipv4/ip_forward"});
  CHECK(paths_of("net/ipv4/conf/a.b/x", "eth0") == Paths{"ipv4/conf/a.b/x", "ipv4/conf/a/b/x"});
  CHECK(paths_of("net.ipv4.conf.a/b.x", "eth0") == Paths{"ipv4/conf/a.b/x", "ipv4/conf/a/b/x"});
}

TEST_CASE("the first IFNAME is the interface, dots and all") {
  CHECK(paths_of("net.ipv4.conf.IFNAME.x", "eth0.100") == Paths{"ipv4/conf/eth0.100/x"});
  CHECK(paths_of("net/ipv4/IFNAME/IFNAME", "a.b") == Paths{"ipv4/a.b/IFNAME"});
}

TEST_CASE("a key is below net in both readings") {
  for (const char* good : {"net.ipv4.x", "net/ipv4/x", "net.ipv4/x", "net/a.b/c"}) {
    CHECK_MESSAGE(complaint_about(good).empty(), good);
  }
  for (const char* bad : {"", "net", "net.", "net/", "net..x", "net/../x", "net.ipv4/../x",
                          "/net/x", "kernel.x", "net.x+net.y", "net.x\n", "net. x", "net/x/..",
                          "net/./x", "net.ipv4.x.", "net.\x01x", "net.\xc3\xa9"}) {
    CHECK_FALSE_MESSAGE(complaint_about(bad).empty(), bad);
  }
}

TEST_CASE("values are numbers, lists and ranges as the kernel reads them") {
  CHECK(same_value("1024 65000", "1024\t65000"));
  CHECK(same_value("0x10", "16"));
  CHECK(same_value("010", "8"));
  CHECK(same_value(" 1\n", "1"));
  CHECK(same_value("", ""));
  CHECK(same_value("8080,8081,9000", "8080-8081,9000"));
  CHECK(same_value("5,1-4", "1-5"));
  CHECK(same_value("cubic", "cubic"));
  CHECK(same_value("-1", "-1"));
}

TEST_CASE("other values are others") {
  CHECK_FALSE(same_value("1", "0"));
  CHECK_FALSE(same_value("1 2", "1"));
  CHECK_FALSE(same_value("1", ""));
  CHECK_FALSE(same_value("12", "1 2"));
  CHECK_FALSE(same_value("8080,8081", "8080-8082"));
  CHECK_FALSE(same_value("cubic", "reno"));
  CHECK_FALSE(same_value("99999999999999999999", "9223372036854775807"));
  CHECK_FALSE(same_value("4294967295-1,2", "2"));
}

TEST_CASE("a line of the allowlist matches anywhere in the key") {
  CHECK(is_allowed("^net\\.ipv4\\.conf\\.IFNAME\\.[a-z_]*$", "net.ipv4.conf.IFNAME.arp_filter"));
  CHECK(is_allowed("x\n  arp_\t\r\n", "net.ipv4.conf.IFNAME.arp_filter"));
  CHECK(is_allowed("(ipv4|ipv6)\\.ip_[[:alpha:]]+", "net.ipv4.ip_forward"));
  CHECK_FALSE(is_allowed("", "net.ipv4.ip_forward"));
  CHECK_FALSE(is_allowed("\n\n  \n", "net.ipv4.ip_forward"));
  CHECK_FALSE(is_allowed("^ipv4", "net.ipv4.ip_forward"));
}

TEST_CASE("a line that is read in another way than by the reference allows nothing") {
  for (const char* line :
       {"(", "[", "*", "\\d", "[\\w]", "(?i)net", "n.*?t", "n+?", "n{1}?", "\\1", "\\pL"}) {
    CHECK_FALSE_MESSAGE(is_allowed(std::string("net\n") + line, "net.ipv4.ip_forward"), line);
  }
}
