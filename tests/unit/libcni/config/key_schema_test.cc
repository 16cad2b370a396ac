#include "libcni/config/key_schema.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/libcni/sample_keys.h"

using nlohmann::json;

namespace {

json schema() { return json(cni::schema_of("sample", sample::kManual)); }
json property(const char* key) { return schema()["properties"][key]; }

}  // namespace

TEST_CASE("the schema says what it is the schema of") {
  const json doc = schema();
  CHECK(doc["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  CHECK(doc["title"] == "sample");
  CHECK(doc["description"].get<std::string>().ends_with("shows every kind of key"));
  CHECK(doc["type"] == "object");
  CHECK(doc["additionalProperties"] == false);
}

TEST_CASE("every kind of key has its schema") {
  CHECK(property("flag") == R"({"description": "whether text counts",
                                "type": ["boolean", "null"], "default": false})"_json);
  CHECK(property("text") == R"({"description": "some text", "type": ["string", "null"],
                                "default": "old"})"_json);
  CHECK(property("small") == R"({"description": "of one byte", "type": ["integer", "null"],
                                 "minimum": 0, "maximum": 255})"_json);
  CHECK(property("large") == R"({"description": "of eight", "type": ["integer", "null"],
                                 "minimum": -5})"_json);
  CHECK(property("mtu") == R"({"description": "or zero", "type": ["integer", "null"],
      "anyOf": [{"const": 0}, {"minimum": 68, "maximum": 9000}]})"_json);
  CHECK(property("maybe") == R"({"description": "a word", "type": ["string", "null"],
                                 "enum": ["red", "green", "", null]})"_json);
  CHECK(property("address") == R"({"description": "an address",
      "anyOf": [{"$ref": "#/$defs/ip"}, {"enum": ["", null]}]})"_json);
  CHECK(property("nets") == R"({"description": "networks", "type": ["array", "null"],
                                "items": {"$ref": "#/$defs/cidr"}})"_json);
  CHECK(property("grid") == R"({"description": "numbers", "type": ["array", "null"], "items":
      {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}}})"_json);
  CHECK(property("shout") == R"({"description": "loud", "type": ["string", "null"],
      "pattern": "^[a-z]*$", "errorMessage": "small letters"})"_json);
  CHECK(property("ports") == R"({"description": "read elsewhere", "type": ["array", "null"],
      "items": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 65535},
                          {"type": "string", "pattern": "^[0-9]+-[0-9]+$"}],
                "errorMessage": "a port or a range"}})"_json);
}

TEST_CASE("objects are closed but for those in which others have a part") {
  CHECK(property("items")["items"]["additionalProperties"] == false);
  CHECK(property("items")["items"]["required"] == json({"net"}));
  CHECK_FALSE(property("runtimeConfig").contains("additionalProperties"));
  CHECK_FALSE(property("args").contains("additionalProperties"));
  CHECK_FALSE(property("prevResult").contains("additionalProperties"));
}

TEST_CASE("what every config has is known without being in the table") {
  for (const char* const key : {"cniVersion", "name", "type", "ipam", "dns", "args", "prevResult",
                                "cni.dev/valid-attachments", "cni.dev/attachments"}) {
    CAPTURE(key);
    CHECK(property(key).is_object());
  }
}

TEST_CASE("capabilities are the keys of runtimeConfig, and no others where nobody else is asked") {
  CHECK(property("capabilities")["properties"].size() == 1);
  CHECK(property("capabilities")["properties"].contains("given"));
  CHECK(property("capabilities")["additionalProperties"] == false);
}

TEST_CASE("a plugin with a delegate leaves ipam and capabilities open") {
  struct Delegating {
    std::string type;
  };
  static constexpr auto kIpam = cni::keys(cni::key<&Delegating::type>({.name = "type"}));
  static constexpr auto kWithIpam = cni::keys(cni::part<kIpam>({.name = "ipam", .open = true}));
  const json doc(cni::schema_of("delegating", {.purpose = "", .keys = kWithIpam}));
  CHECK(doc["additionalProperties"] == false);
  CHECK_FALSE(doc["properties"]["ipam"].contains("additionalProperties"));
  CHECK(doc["properties"]["capabilities"]["additionalProperties"]["type"] == "boolean");
}

TEST_CASE("an IPAM plugin's schema is of the whole config, and strict about ipam only") {
  struct Conf {
    std::string file;
  };
  static constexpr auto kIpam = cni::keys(cni::key<&Conf::file>({.name = "file"}));
  static constexpr auto kWithIpam = cni::keys(cni::part<kIpam>({.name = "ipam", .required = true}));
  const json doc(
      cni::schema_of("x", {.purpose = "", .keys = kWithIpam, .facts = {cni::Fact::kIpam}}));
  CHECK_FALSE(doc.contains("additionalProperties"));
  CHECK(doc["properties"]["ipam"]["additionalProperties"] == false);
  CHECK(doc["required"] == json({"ipam"}));
}

TEST_CASE("backticks are for Markdown") { CHECK(cni::plain("a `b` c``") == "a b c"); }
