#include "libcni/config/args.h"

#include <doctest/doctest.h>

#include "libcni/common/error.h"

using cni::parse_args;
using Args = std::map<std::string, std::string, std::less<>>;
constexpr cni::Key kIp[] = {{.name = "IP"}};
constexpr cni::Key kIpAndMac[] = {{.name = "IP"}, {.name = "MAC"}};

TEST_CASE("CNI_ARGS is split into pairs, in any order") {
  CHECK(parse_args("", kIp).empty());
  CHECK(parse_args("IP=10.1.2.3", kIp) == Args{{"IP", "10.1.2.3"}});
  CHECK(parse_args("MAC=0a:58:0a:01:02:03;IP=10.1.2.3", kIpAndMac) ==
        Args{{"IP", "10.1.2.3"}, {"MAC", "0a:58:0a:01:02:03"}});
  CHECK(parse_args("IP=", kIp) == Args{{"IP", ""}});
  CHECK(parse_args("IP=a;IP=b", kIp) == Args{{"IP", "b"}});
  CHECK(parse_args("IP= 10.1.2.3 ", kIp) == Args{{"IP", " 10.1.2.3 "}});
}

TEST_CASE("unknown CNI_ARGS are refused unless IgnoreUnknown is true") {
  CHECK_THROWS_WITH_AS(parse_args("K8S_POD_NAME=a;IP=1;X=2", kIp),
                       "ARGS: unknown args [\"K8S_POD_NAME=a\" \"X=2\"]", cni::Error);
  for (const char* yes : {"1", "true", "True", "TRUE"}) {
    CAPTURE(yes);
    CHECK(parse_args(std::string("X=2;IP=1;IgnoreUnknown=") + yes, kIp) == Args{{"IP", "1"}});
    CHECK(parse_args(std::string("IgnoreUnknown=") + yes + ";X=2", kIp).empty());
  }
  for (const char* no : {"0", "false", "FALSE"}) {
    CAPTURE(no);
    CHECK_THROWS_AS(parse_args(std::string("X=2;IgnoreUnknown=") + no, kIp), cni::Error);
    CHECK(parse_args(std::string("IP=1;IgnoreUnknown=") + no, kIp) == Args{{"IP", "1"}});
  }
}

TEST_CASE("keys of CNI_ARGS are case-sensitive") {
  CHECK_THROWS_AS(parse_args("ip=10.1.2.3", kIp), cni::Error);
  CHECK_THROWS_AS(parse_args("X=1;ignoreunknown=1", kIp), cni::Error);
}

TEST_CASE("a pair that is none is named") {
  const struct {
    const char *text, *piece;
  } table[] = {{"none", "none"},   {"IP=1;", ""}, {";IP=1", ""},
               {"IP=1;;IP=2", ""}, {"IP", "IP"},  {"IP=a=b", "IP=a=b"}};
  for (const auto& row : table) {
    CAPTURE(row.text);
    CHECK_THROWS_WITH_AS(parse_args(row.text, kIp),
                         cni::cat("ARGS: invalid pair \"", row.piece, "\"").c_str(), cni::Error);
  }
}

TEST_CASE("a comma between pairs is not taken for a semicolon") {
  CHECK_THROWS_WITH_AS(parse_args("IP=1,MAC=2", kIpAndMac),
                       doctest::Contains("invalid pair \"IP=1,MAC=2\""), cni::Error);
}

TEST_CASE("a value of IgnoreUnknown that is no boolean is refused") {
  CHECK_THROWS_WITH_AS(
      parse_args("IgnoreUnknown=yes", {}),
      "ARGS: error parsing value of pair \"IgnoreUnknown=yes\": boolean unmarshal error: "
      "invalid input yes",
      cni::Error);
}

TEST_CASE("broken CNI_ARGS are an error of the environment") {
  try {
    parse_args("none", {});
    FAIL("accepted");
  } catch (const cni::Error& e) {
    CHECK(e.code() == cni::Code::kInvalidEnvironment);
  }
}

TEST_CASE("a value of CNI_ARGS is found by its whole key, whatever the other parts are") {
  constexpr const char* kText =
      "IgnoreUnknown=1;;K8S_POD_NAMES;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=a=b";
  CHECK(cni::value_in_args(kText, "K8S_POD_NAME") == "a=b");
  CHECK(cni::value_in_args(kText, "K8S_POD_NAMESPACE") == "shop");
  CHECK(cni::value_in_args(kText, "K8S_POD_UID").empty());
  CHECK(cni::value_in_args("", "IP").empty());
}
