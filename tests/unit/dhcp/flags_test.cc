#include "plugins/dhcp/daemon/flags.h"

#include <doctest/doctest.h>

#include <stdexcept>

using dhcp::Flags;
using std::chrono::milliseconds;
using std::chrono::seconds;

TEST_CASE("flags are read as Go reads them") {
  const char* const arguments[] = {"-timeout",           "2s",           "--resendmax=8s",
                                   "--resendtimeout",    "10s",          "-broadcast",
                                   "-socketpath=/run/x", "--hostprefix", "/h"};
  const Flags flags = Flags::parse(arguments);
  CHECK(flags.timing.first == seconds(2));
  CHECK(flags.timing.most == seconds(8));
  CHECK(flags.resend_timeout == seconds(10));
  CHECK(flags.broadcast);
  CHECK(flags.socket_path == "/run/x");
  CHECK(flags.host_prefix == "/h");
  const char* const off[] = {"-broadcast=false"};
  CHECK_FALSE(Flags::parse(off).broadcast);
}

TEST_CASE("flags that are none are refused") {
  for (const char* wrong : {"x", "-", "-=x", "-foo", "-timeout", "-timeout=5", "-timeout=-1s",
                            "-pidfile=relative", "-broadcast=maybe", "-timeout=0s"}) {
    const char* const arguments[] = {wrong};
    CHECK_THROWS_AS_MESSAGE(Flags::parse(arguments), std::invalid_argument, wrong);
  }
}
