#include "cnitool/output.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <sstream>

using tool::Colour;
using tool::Output;

TEST_CASE("output: columns are as wide as their widest cell, colours not counted") {
  std::ostringstream text;
  tool::print_table({.out = text}, {{{"A"}, {"B", Colour::kBold}, {"C"}}, {{"long"}, {""}, {"x"}}});
  CHECK(text.str() ==
        "A     B  C\n"
        "long     x\n");
  text.str("");
  tool::print_table({.out = text, .colours = true},
                    {{{"A", Colour::kRed}, {"B"}}, {{"cc"}, {"d"}}});
  CHECK(text.str() == "\x1b[31mA\x1b[0m   B\ncc  d\n");
}

TEST_CASE("output: an age is in the unit that says enough") {
  CHECK(tool::age_text(-5) == "0s");
  CHECK(tool::age_text(119) == "119s");
  CHECK(tool::age_text(120) == "2m");
  CHECK(tool::age_text(2 * 3600 - 1) == "119m");
  CHECK(tool::age_text(2 * 3600) == "2h");
  CHECK(tool::age_text(48 * 3600) == "2d");
}

TEST_CASE("output: an error is a line, or an object") {
  const cni::Error bare(cni::Code::kInvalidConfig, "msg");
  const cni::Error full(cni::Code::kTryAgainLater, "msg", "more\n");
  CHECK(tool::text_of(bare) == "msg");
  CHECK(tool::text_of(full) == "msg; more");
  CHECK(tool::json_of(bare).dump() == R"({"code":7,"msg":"msg"})");
  CHECK(tool::json_of(full).dump() == R"({"code":11,"msg":"msg","details":"more\n"})");
}

TEST_CASE("output: text is indented, JSON is spread over lines") {
  CHECK(tool::indented("a\n\nb\n", 1) == "  a\n  \n  b\n");
  CHECK(tool::indented("", 1).empty());
  CHECK(tool::pretty(R"({"b":1,"a":[]})") == "{\n  \"b\": 1,\n  \"a\": []\n}");
  CHECK(tool::pretty("no JSON\n") == "no JSON");
  CHECK(tool::pretty("").empty());
}

TEST_CASE("output: on a terminal lists and paths are wrapped, and then long texts cut") {
  const auto table = [](std::size_t width) {
    std::ostringstream text;
    tool::print_table({.out = text, .width = width},
                      {{{"A"}, {"B"}, {"C"}}, {{"0123456789ab"}, {"one,two,six"}, {"/etc/cni/x"}}});
    return text.str();
  };
  CHECK(table(0) == table(80));
  CHECK(table(32) ==
        "A             B         C\n"
        "0123456789ab  one,two,  /etc/\n"
        "              six       cni/x\n");
  CHECK(table(28) ==
        "A             B       C\n"
        "0123456789ab  one,    /etc/\n"
        "              two,    cni/x\n"
        "              six     \n");
  CHECK(table(22).starts_with("A           B     C\n012345678…  one,  /\n"));
}

TEST_CASE("output: a text is folded at blanks, and cut between characters") {
  CHECK(tool::folded("one two three", 2, 9) == "one two\n  three");
  CHECK(tool::folded("one two three", 2, 0) == "one two three");
  CHECK(tool::folded("a longer-than-that b", 2, 6) == "a\n  longer-than-that\n  b");
  CHECK(tool::cut("äöü", 3) == "äöü");
  CHECK(tool::cut("äöüx", 3) == "ä…");
}

TEST_CASE("output: a noun that ends in s has its plural, too") {
  CHECK(tool::counted(1, "address") == "1 address");
  CHECK(tool::counted(2, "address") == "2 addresses");
  CHECK(tool::counted(0, "error") == "0 errors");
}
