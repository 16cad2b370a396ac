#include "libcni/common/version.h"

#include <doctest/doctest.h>

#include "libcni/common/error.h"

using cni::SemVer;
using cni::Version;

TEST_CASE("every supported version is read back from its text") {
  CHECK(cni::supported_versions().size() == 7);
  for (const auto text : cni::supported_versions()) {
    CAPTURE(text);
    REQUIRE(cni::version_from(text));
    CHECK(cni::str(*cni::version_from(text)) == text);
  }
  CHECK(cni::str(cni::kNewest) == cni::supported_versions().back());
}

TEST_CASE("an empty version is 0.1.0") { CHECK(cni::version_from("") == Version::k0_1_0); }

TEST_CASE("a version is matched by its exact text only") {
  for (const char* text : {"1.0", "1", "v1.0.0", "1.0.0 ", "01.0.0", "1.1.1", "0.5.0", "2.0.0"}) {
    CAPTURE(text);
    CHECK_FALSE(cni::version_from(text));
  }
}

TEST_CASE("versions this build does not know can still be ordered") {
  CHECK(SemVer::parse("") == SemVer{0, 1, 0});
  CHECK(SemVer::parse("1") == SemVer{1, 0, 0});
  CHECK(SemVer::parse("1.2") == SemVer{1, 2, 0});
  CHECK(SemVer::parse("1.2.3") == SemVer{1, 2, 3});
  CHECK(SemVer::parse("0.10.0") > SemVer::parse("0.9.9"));
  CHECK(SemVer::parse("1.0.0") > SemVer::parse("0.99.99"));
  CHECK(SemVer::parse("1.0.1") > SemVer::parse("1.0"));
}

TEST_CASE("what is no version is refused with the part that is wrong") {
  const struct {
    const char *text, *msg;
  } table[] = {
      {"x", "invalid version \"x\": the major part 'x' is not a number"},
      {"1.x", "invalid version \"1.x\": the minor part 'x' is not a number"},
      {"1.2.x", "invalid version \"1.2.x\": the micro part 'x' is not a number"},
      {"1.2.3.4", "invalid version \"1.2.3.4\": too many parts"},
      {"1.", "invalid version \"1.\": the minor part '' is not a number"},
      {".", "invalid version \".\": the major part '' is not a number"},
      {"-1", "invalid version \"-1\": the major part '-1' is not a number"},
      {"+1", "invalid version \"+1\": the major part '+1' is not a number"},
      {"1.0 ", "invalid version \"1.0 \": the minor part '0 ' is not a number"},
      {"99999999999",
       "invalid version \"99999999999\": the major part '99999999999' is not a number"},
  };
  for (const auto& row : table) {
    CAPTURE(row.text);
    CHECK_THROWS_WITH_AS(SemVer::parse(row.text), row.msg, cni::Error);
  }
  try {
    SemVer::parse("x");
  } catch (const cni::Error& e) {
    CHECK(e.code() == cni::Code::kDecodingFailure);
  }
}
