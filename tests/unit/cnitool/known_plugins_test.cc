#include "cnitool/known_plugins.h"

#include <doctest/doctest.h>

using cni::Fact;
using tool::facts_of;

TEST_CASE("a plugin is known by its type, a copy and a wrapper by that of the plugin") {
  for (const char* const type : {"bridge", "cnv-bridge", "bridge.real"}) {
    CAPTURE(type);
    CHECK(facts_of(type).has(Fact::kInterface));
    CHECK(facts_of(type).has(Fact::kBridge));
  }
  CHECK(facts_of("static").has(Fact::kAddresses));
  CHECK_FALSE(facts_of("macvlan").has(Fact::kBridge));
}

TEST_CASE("of another plugin nothing is known") {
  CHECK_FALSE(facts_of("calico").has_one_of({Fact::kInterface, Fact::kChained, Fact::kIpam}));
  CHECK_FALSE(facts_of("").has_one_of({Fact::kInterface, Fact::kChained, Fact::kIpam}));
}

TEST_CASE("a plugin is found by its fact") {
  CHECK(tool::type_with(Fact::kRanges) == "host-local");
  CHECK(tool::type_with(Fact::kDevices) == "devices");
}
