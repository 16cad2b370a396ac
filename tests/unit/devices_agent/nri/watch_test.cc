#include "plugins/devices/agent/nri/watch.h"

#include <doctest/doctest.h>

using devices::Pod;
using devices::nri::Sandbox;
using devices::nri::Seen;

namespace {

Sandbox sandbox(const char* id, const char* pod) {
  return {.id = id,
          .name = pod,
          .uid = std::string(pod) + "-uid",
          .space = "shop",
          .netns = {},
          .ips = {}};
}

}  // namespace

TEST_CASE("a sandbox that was listed and is not any more has ended, one that never was has not") {
  Seen seen;
  CHECK(seen.list({sandbox("a", "web"), sandbox("b", "db")}).empty());
  CHECK(seen.list({sandbox("b", "db"), sandbox("c", "new")}) ==
        std::vector{Pod{"shop", "web", "web-uid"}});
  CHECK(seen.list({sandbox("b", "db"), sandbox("c", "new")}).empty());
}

TEST_CASE("a sandbox that has run is as one that was listed, and ends once") {
  Seen seen;
  seen.add(sandbox("a", "web"));
  seen.add(sandbox("b", "db"));
  CHECK(seen.end(sandbox("a", "web")));
  CHECK_FALSE(seen.end(sandbox("a", "web")));
  CHECK(seen.list({}) == std::vector{Pod{"shop", "db", "db-uid"}});
}
