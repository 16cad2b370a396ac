#include "libcni/config/json.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "libcni/config/conf.h"

using cni::Error;
using cni::parse_json;
using nlohmann::json;

TEST_CASE("of keys that differ by case alone the last in the text is taken, as Go takes it") {
  const struct {
    const char *text, *master;
  } table[] = {
      {R"({"master": "a", "Master": "b"})", "b"},
      {R"({"Master": "b", "master": "a"})", "a"},
      {R"({"MASTER": "c", "master": "a", "Master": "b"})", "b"},
      {R"({"master": "a", "Master": "b", "master": "c"})", "c"},
      {R"({"master": "a", "master": "b"})", "b"},
      {R"({"Master": "a"})", "a"},
  };
  for (const auto& row : table) {
    CAPTURE(row.text);
    const json doc = parse_json(row.text, "it");
    CHECK(cni::Reader(doc)["master"].as_string() == row.master);
    CHECK(doc.size() == 1);
    const json nested = parse_json(cni::cat(R"({"x": [1, )", row.text, "]}"), "it");
    CHECK(cni::Reader(nested["x"][1])["master"].as_string() == row.master);
  }
}

TEST_CASE("names of sysctls may differ by case alone") {
  const json doc = parse_json(R"({"net.ipv4.conf.A.x": "1", "net.ipv4.conf.a.x": "2"})", "it");
  CHECK(doc.size() == 2);
}

TEST_CASE("a byte order mark is refused, as runtimes refuse it") {
  CHECK_THROWS_WITH_AS(parse_json("\xef\xbb\xbf{}", "the config"),
                       "the config is not JSON: it begins with a byte order mark", Error);
  CHECK(cni::try_parse_json("\xef\xbb\xbf{}").is_discarded());
  CHECK(parse_json("{\"a\": \"\xef\xbb\xbf\"}", "it").size() == 1);
}
