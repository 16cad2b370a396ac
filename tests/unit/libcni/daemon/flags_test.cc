#include "libcni/daemon/flags.h"

#include <doctest/doctest.h>

#include <stdexcept>

namespace {

using Words = std::vector<std::string>;

struct Read {
  std::string only;
  bool watch = false;
  Words others;

  explicit Read(std::vector<const char*> arguments) {
    cni::read_flags("install", {{"only", only, "plugins"}, {"watch", watch, "go on"}}, arguments,
                    &others);
  }
};

}  // namespace

TEST_CASE("flags are read in each form of Go's package flag, also after other arguments") {
  for (const auto& words : {std::vector<const char*>{"-only", "bridge", "--watch", "/dir"},
                            {"--only=bridge", "/dir", "-watch=true"}}) {
    const Read got(words);
    CHECK(got.only == "bridge");
    CHECK(got.watch);
    CHECK(got.others == Words{"/dir"});
  }
}

TEST_CASE("two dashes end the flags") {
  CHECK(Read({"--only", "bridge", "--", "/dir"}).others == Words{"/dir"});
  CHECK(Read({"--", "-watch", "--"}).others == Words{"-watch", "--"});
  CHECK(Read({"-only", "--"}).only == "--");
  std::string only;
  const std::vector<const char*> more{"--", "/dir"};
  CHECK_THROWS_WITH_AS(cni::read_flags("watch", {{"only", only, "plugins"}}, more),
                       "unexpected argument '/dir'", std::invalid_argument);
}
