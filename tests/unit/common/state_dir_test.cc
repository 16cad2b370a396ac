#include "plugins/common/state/state_dir.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "libcni/common/error.h"

using plugins::StateOwner;

TEST_CASE("an owner is read back as it was written") {
  const StateOwner owner{.network = "net",
                         .container_id = "c1",
                         .ifname = "net1",
                         .netns = "/run/netns/pod",
                         .cookie = 4711};
  const auto doc = plugins::json_of(owner);
  CHECK(plugins::owner_from(cni::Reader(doc)) == owner);
}

TEST_CASE("an owner with a part missing is none") {
  for (const char* key : {"network", "containerID", "ifname", "netns", "netnsCookie"}) {
    auto doc = plugins::json_of(StateOwner{});
    doc.erase(key);
    CHECK_THROWS_AS_MESSAGE(plugins::owner_from(cni::Reader(doc)), cni::Error, key);
  }
}

TEST_CASE("a state is of its namespace, or of any where the kernel does not say") {
  CHECK(StateOwner{.cookie = 5}.is_in(5));
  CHECK_FALSE(StateOwner{.cookie = 5}.is_in(6));
  CHECK(StateOwner{.cookie = 5}.is_in(0));
  CHECK(StateOwner{}.is_in(6));
}
