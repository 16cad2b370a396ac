#include <doctest/doctest.h>

#include <string>

#include "plugins/devices/agent/dra/names.h"

using devices::dra::device_name;
using devices::dra::shared_id;

TEST_CASE("the name of a device in a slice is its ID, as far as a label has the characters") {
  CHECK(device_name("0000:03:00.1") == "0000-03-00-1");
  CHECK(device_name("eth1:macvlan:3") == "eth1-macvlan-3");
  CHECK(device_name("netdev:02-00-5e-00-00-01") == "netdev-02-00-5e-00-00-01");
  CHECK(device_name(shared_id("eth1", "macvlan")) == "eth1-macvlan");
  CHECK(shared_id("", "tap") == "tap");
}

TEST_CASE("two IDs that a label cannot tell apart have two names") {
  CHECK(device_name("mlx5_core.sf.4") != device_name("mlx5-core.sf.4"));
  CHECK(device_name("mlx5_core.sf.4").starts_with("mlx5-core-sf-4-"));
  CHECK(device_name("Eth1:macvlan:1") != device_name("eth1:macvlan:1"));
  const std::string long_id(70, 'a');
  CHECK(device_name(long_id).size() == 63);
  CHECK(device_name(long_id) != device_name(long_id + "a"));
}

TEST_CASE("a name begins and ends with a letter or a digit") {
  for (const char* const id : {"-", "_", "a-", "-a", ":a", "a.", "---"}) {
    const std::string name = device_name(id);
    CHECK(name.front() != '-');
    CHECK(name.back() != '-');
    CHECK_FALSE(name.empty());
  }
}
