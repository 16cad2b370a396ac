#include "cnitool/node_runtimes.h"

#include <doctest/doctest.h>

using namespace tool;

namespace {

std::vector<NodeRuntime> runtimes(std::initializer_list<const char*> newest) {
  std::vector<NodeRuntime> out;
  for (const char* const one : newest) out.push_back({"containerd", "/usr/bin/containerd", one});
  return out;
}

}  // namespace

TEST_CASE("runtimes: a list that is too new for one of them is refused, for all only by all") {
  CHECK_FALSE(version_advice("1.1.0", "1.1.0", {}));
  CHECK_FALSE(version_advice("1.0.0", "1.0.0", runtimes({"1.0.0"})));
  CHECK_FALSE(version_advice("0.3.1", "0.3.1", runtimes({"1.0.0"})));
  const auto refused = version_advice("1.1.0", "1.1.0", runtimes({"1.0.0"}));
  REQUIRE(refused);
  CHECK(refused->version == "1.0.0");
  CHECK(refused->is_refused);
  CHECK(refused->by_all);
  CHECK(refused->what == "which containerd (/usr/bin/containerd) does not support");
  const auto by_one = version_advice("1.1.0", "1.1.0", runtimes({"1.1.0", "1.0.0"}));
  REQUIRE(by_one);
  CHECK(by_one->is_refused);
  CHECK_FALSE(by_one->by_all);
}

TEST_CASE("runtimes: a list for both has cniVersion for the old and cniVersions for the new") {
  CHECK_FALSE(version_advice("1.0.0", "1.1.0", runtimes({"1.0.0"})));
  CHECK_FALSE(version_advice("1.0.0", "1.1.0", runtimes({"1.1.0"})));
}

TEST_CASE("runtimes: an older list than the runtime knows has fewer verbs") {
  const auto advice = version_advice("1.0.0", "1.0.0", runtimes({"1.1.0"}));
  REQUIRE(advice);
  CHECK_FALSE(advice->is_refused);
  CHECK(advice->version == "1.1.0");
}

TEST_CASE("runtimes: an unknown version is another check's") {
  CHECK_FALSE(version_advice("9.0.0", "9.0.0", runtimes({"1.0.0"})));
}
