#include <doctest/doctest.h>

#include <string>

#include "cnitool/probe/target.h"

using namespace tool::probe;

TEST_CASE("a target is an address, one with a port, a pod, or the name servers") {
  using Kind = Target::Kind;
  const struct {
    const char* text;
    Kind kind;
    const char *ip, *pod;
    std::uint16_t port;
    bool is_udp;
  } rows[] = {{"10.0.0.1", Kind::kAddress, "10.0.0.1", "", 0, false},
              {"10.0.0.1:80", Kind::kAddress, "10.0.0.1", "", 80, false},
              {"10.0.0.1:53/udp", Kind::kAddress, "10.0.0.1", "", 53, true},
              {"10.0.0.1:53/tcp", Kind::kAddress, "10.0.0.1", "", 53, false},
              {"fd00::1", Kind::kAddress, "fd00::1", "", 0, false},
              {"[fd00::1]:65535", Kind::kAddress, "fd00::1", "", 65535, false},
              {"dns", Kind::kNameServers, "", "", 0, false},
              {"shop/dns", Kind::kPod, "", "shop/dns", 0, false},
              {"shop/udp", Kind::kPod, "", "shop/udp", 0, false},
              {"web-1", Kind::kPod, "", "web-1", 0, false},
              {"shop/web-1:8080", Kind::kPod, "", "shop/web-1", 8080, false},
              {"0123456789abcdef", Kind::kPod, "", "0123456789abcdef", 0, false},
              {"12", Kind::kPod, "", "12", 0, false}};
  for (const auto& row : rows) {
    const std::string text = row.text;
    CAPTURE(text);
    const auto got = target_of(text);
    REQUIRE(got);
    CHECK(got->kind == row.kind);
    CHECK(got->pod == row.pod);
    CHECK(got->port == row.port);
    CHECK(got->is_udp == row.is_udp);
    if (row.kind == Kind::kAddress) CHECK(got->ip == *Ip::parse(row.ip));
    CHECK(refusal_of_target(text).empty());
  }
}

TEST_CASE("what is no target is refused") {
  for (const std::string text : {"",
                                 "a b",
                                 "web\x1b",
                                 "10.0.0",
                                 "10.0.0.1:",
                                 "10.0.0.1:0",
                                 "10.0.0.1:65536",
                                 "10.0.0.1:+1",
                                 "10.0.0.1:80/sctp",
                                 "[10.0.0.1]:80",
                                 "[fd00::1",
                                 "[fd00::1]",
                                 "fd00:0:0:0:0:0:0:1:80",
                                 "[web-1]:80",
                                 ":80",
                                 "web-1:",
                                 "0.0.0.0",
                                 "127.0.0.1:80",
                                 "224.0.0.1",
                                 "ff02::1"}) {
    CAPTURE(text);
    CHECK_FALSE(refusal_of_target(text).empty());
  }
}

TEST_CASE("a source is the address of a host") {
  CHECK(refusal_of_source("203.0.113.7").empty());
  CHECK(refusal_of_source("2001:db8::7").empty());
  for (const std::string text :
       {"", "web-1", "203.0.113.7:80", "127.0.0.1", "fe80::1", "::", "ff02::1"}) {
    CAPTURE(text);
    CHECK_FALSE(refusal_of_source(text).empty());
  }
}
