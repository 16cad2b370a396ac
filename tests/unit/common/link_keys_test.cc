#include "plugins/common/link/link_keys.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace {

std::string complaint(const char* mac) {
  const nlohmann::json conf{{"mac", mac}};
  try {
    plugins::mac_key_from(cni::Reader(conf)["mac"]);
  } catch (const cni::Error& e) {
    return cni::cat(static_cast<unsigned>(e.code()), " ", e.what(), " | ", e.details());
  }
  return "";
}

}  // namespace

TEST_CASE("a link name is one that a link can have exactly") {
  for (const char* const good : {"a", "eth0.100", "br-0_x", "a23456789012345"}) {
    CHECK_MESSAGE(plugins::is_link_name(good), good);
  }
  for (const char* const bad : {"", "a234567890123456", ".", "..", "../b", "a/b", "a:b", "a b",
                                "a\tb", "b\n", "c%", "cni%d"}) {
    CHECK_FALSE_MESSAGE(plugins::is_link_name(bad), bad);
  }
  CHECK_FALSE(plugins::is_link_name(std::string("c\0i0", 4)));
}

TEST_CASE("a MAC address of an interface is a unicast one other than zero") {
  constexpr const char* kForm =
      "expected a unicast MAC address other than zero, for example 02:00:5e:10:20:30";
  for (const char* const bad : {"01:00:5e:00:00:01", "00:00:00:00:00:00"}) {
    CHECK(complaint(bad) == cni::cat("7 mac: ", kForm, ": \"", bad, "\" | "));
  }
  for (const char* const bad : {"zz", "02:00:00:00:01", "02:00:5e:10:20:30:40:50"}) {
    CHECK(complaint(bad) == cni::cat("7 invalid args ", bad, " for MAC addr: address ", bad,
                                     ": invalid MAC address | mac: ", kForm, ": \"", bad, "\""));
  }
  CHECK(complaint("02:00:5e:10:20:30").empty());
}
