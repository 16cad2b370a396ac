#include "plugins/flannel/go_json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

namespace {

using flannel::go_json;
using nlohmann::ordered_json;

std::string of(const char* text) { return go_json(ordered_json::parse(text)); }

TEST_CASE("Go prints numbers as those of float64") {
  const std::pair<const char*, const char*> rows[] = {
      {"0", "0"},
      {"1450", "1450"},
      {"-7", "-7"},
      {"4294967295", "4294967295"},
      {"12345678901234567890", "12345678901234567000"},
      {"1e3", "1000"},
      {"1.50", "1.5"},
      {"0.1", "0.1"},
      {"123456.789", "123456.789"},
      {"1e20", "100000000000000000000"},
      {"1e21", "1e+21"},
      {"1.25e300", "1.25e+300"},
      {"0.000001", "0.000001"},
      {"1e-7", "1e-7"},
      {"1.5e-10", "1.5e-10"},
      {"5e-324", "5e-324"},
      {"1.7976931348623157e308", "1.7976931348623157e+308"}};
  for (const auto& [text, expected] : rows) CHECK(of(text) == expected);
}

TEST_CASE("Go escapes what could be HTML, and line separators") {
  CHECK(of(R"("<a href=\"x\">&amp;\u2028\u2029\u00e9\n\u0001/")") ==
        "\"\\u003ca href=\\\"x\\\"\\u003e\\u0026amp;\\u2028\\u2029\xc3\xa9\\n\\u0001/\"");
  CHECK(of(R"({"<":1})") == R"({"\u003c":1})");
}

TEST_CASE("Go's JSON is one line, and the order of the keys stays") {
  CHECK(of(R"({"b": [ ], "a": { }, "c": [1, {"x": null}, true]})") ==
        R"({"b":[],"a":{},"c":[1,{"x":null},true]})");
}

}  // namespace
