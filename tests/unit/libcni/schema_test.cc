#include "libcni/schema.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using nlohmann::json;

namespace {

// One line a complaint.
std::string said(const json& schema, const json& config) {
  std::string out;
  for (const auto& one : cni::complaints(schema, config)) out += one.str() + "\n";
  return out;
}

const json kSchema = R"({
  "type": "object",
  "properties": {
    "isGateway": {"type": ["boolean", "null"]},
    "mtu": {"type": "integer", "minimum": 68, "maximum": 65535},
    "backend": {"type": "string", "enum": ["nftables", "iptables", "", null]},
    "list": {"type": ["array", "null"], "minItems": 1, "maxItems": 3, "items": {"type": "string"}},
    "ipam": {"type": "object", "required": ["subnet"], "additionalProperties": false,
             "properties": {"subnet": {"$ref": "#/$defs/cidr"}, "dataDir": {"type": "string"}}},
    "gateway": {"anyOf": [{"$ref": "#/$defs/ip"}, {"enum": ["", null]}]},
    "entries": {"type": "array", "items": {"type": "object", "additionalProperties": false,
                "properties": {"id": {"type": "integer"}}}},
    "limits": {"type": "object", "additionalProperties": {"type": "integer"}}
  },
  "additionalProperties": false,
  "$defs": {
    "ip": {"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}],
           "errorMessage": "an IP address"},
    "cidr": {"type": "string", "format": "cidr", "errorMessage": "a network, as 10.1.2.0/24"}
  }
})"_json;

}  // namespace

TEST_CASE("a config that fits gives no complaints") {
  CHECK(said(kSchema, R"({})"_json).empty());
  CHECK(said(kSchema, R"({"isGateway": true, "mtu": 68, "backend": "iptables", "list": ["a"],
      "ipam": {"subnet": "10.1.2.0/24"}, "gateway": "fd00::1", "entries": [{"id": 1}, {}],
      "limits": {"any": 5}})"_json)
            .empty());
}

TEST_CASE("an unknown key is complained of, with what may have been meant") {
  CHECK(said(kSchema, R"({"isGatway": true})"_json) ==
        "isGatway: unknown key (did you mean isGateway?)\n");
  CHECK(said(kSchema, R"({"entries": [{}, {"ib": 5}]})"_json) == "entries[1].ib: unknown key\n");
  CHECK(said(kSchema, R"({"ipam": {"subnet": "10.0.0.0/8", "datadir2": "x"}})"_json) ==
        "ipam.datadir2: unknown key (did you mean dataDir?)\n");
  CHECK(said(kSchema, R"({"nonsense": 1})"_json) == "nonsense: unknown key\n");
}

TEST_CASE("a key that belongs elsewhere is shown its place") {
  CHECK(said(kSchema, R"({"subnet": "10.0.0.0/8"})"_json) ==
        "subnet: unknown key (did you mean ipam.subnet?)\n");
  CHECK(said(kSchema, R"({"id": 1})"_json) == "id: unknown key (did you mean entries[].id?)\n");
}

TEST_CASE("keys match as a plugin matches them: in any case, and the exact one first") {
  CHECK(said(kSchema, R"({"ISGATEWAY": true, "Ipam": {"Subnet": "10.0.0.0/8"}})"_json).empty());
  CHECK(said(kSchema, R"({"MTU": 1})"_json) ==
        "mtu: expected a whole number from 68 to 65535: 1\n");
  CHECK(said(kSchema, R"({"mtu": 100, "Mtu": "x"})"_json) ==
        "Mtu: the key is there already, as mtu\n");
}

TEST_CASE("null is an absent key, also for a schema that does not say so") {
  CHECK(said(kSchema, R"({"mtu": null, "entries": null, "gateway": null})"_json).empty());
  CHECK(said(kSchema, R"({"ipam": {"subnet": null}})"_json) ==
        "ipam.subnet: expected a network, as 10.1.2.0/24: the key is missing\n");
  CHECK(said(kSchema, R"({"list": [null]})"_json) == "list[0]: expected a string: null\n");
}

TEST_CASE("a value of another type is complained of, with how it may be meant") {
  const struct {
    const char *config, *said;
  } table[] = {
      {R"({"isGateway": "true"})",
       "isGateway: expected true or false: \"true\" (did you mean true?)\n"},
      {R"({"isGateway": "No"})",
       "isGateway: expected true or false: \"No\" (did you mean false?)\n"},
      {R"({"isGateway": 1})", "isGateway: expected true or false: 1 (did you mean true?)\n"},
      {R"({"isGateway": "maybe"})", "isGateway: expected true or false: \"maybe\"\n"},
      {R"({"mtu": "1500"})",
       "mtu: expected a whole number from 68 to 65535: \"1500\" (did you mean 1500?)\n"},
      {R"({"mtu": 1500.0})",
       "mtu: expected a whole number from 68 to 65535: 1500.0 (did you mean 1500?)\n"},
      {R"({"mtu": 1500.5})", "mtu: expected a whole number from 68 to 65535: 1500.5\n"},
      {R"({"mtu": "5"})", "mtu: expected a whole number from 68 to 65535: \"5\"\n"},
      {R"({"list": "a"})", "list: expected a list: \"a\" (did you mean [\"a\"]?)\n"},
      {R"({"entries": {"id": 5}})",
       "entries: expected a list: {\"id\":5} (did you mean [{\"id\":5}]?)\n"},
      {R"({"ipam": "host-local"})", "ipam: expected an object: \"host-local\"\n"},
      {R"([])", "config: expected an object: []\n"},
      {R"({"limits": {"any": "x"}})", "limits.any: expected a whole number: \"x\"\n"},
  };
  for (const auto& row : table) {
    CAPTURE(row.config);
    CHECK(said(kSchema, json::parse(row.config)) == row.said);
  }
}

TEST_CASE("a value where none may be is complained of") {
  CHECK(said(R"({"properties": {"a": false}})"_json, R"({"a": 1})"_json) == "a: not allowed: 1\n");
}

TEST_CASE("a value out of range, or none of the words, is complained of") {
  CHECK(said(kSchema, R"({"mtu": 67})"_json) ==
        "mtu: expected a whole number from 68 to 65535: 67\n");
  CHECK(said(kSchema, R"({"mtu": 65536})"_json) ==
        "mtu: expected a whole number from 68 to 65535: 65536\n");
  CHECK(said(kSchema, R"({"backend": "nftable"})"_json) ==
        "backend: expected \"nftables\" or \"iptables\": \"nftable\" (did you mean "
        "\"nftables\"?)\n");
  CHECK(said(kSchema, R"({"backend": "pf"})"_json) ==
        "backend: expected \"nftables\" or \"iptables\": \"pf\"\n");
  CHECK(said(kSchema, R"({"gateway": "10.1"})"_json) ==
        "gateway: expected an IP address: \"10.1\"\n");
  CHECK(said(kSchema, R"({"ipam": {"subnet": "10.1.2.0/33"}})"_json) ==
        "ipam.subnet: expected a network, as 10.1.2.0/24: \"10.1.2.0/33\"\n");
  CHECK(said(kSchema, R"({"list": []})"_json) == "list: expected a list: []\n");
  CHECK(
      said(kSchema, R"({"list": ["a", "b", "c", "d"]})"_json).starts_with("list: expected a list"));
}

TEST_CASE("all that is wrong is said, not only the first") {
  CHECK(cni::complaints(kSchema, R"({"isGateway": 5, "mtu": "x", "what": 1,
                                     "entries": [{"id": "a"}, {"id": "b"}]})"_json)
            .size() == 5);
}

TEST_CASE("what is wrong inside of an alternative is said where it is") {
  const json schema = R"({"anyOf": [{"type": "null"}, {"type": "object",
      "properties": {"a": {"type": "integer"}}, "additionalProperties": false}]})"_json;
  CHECK(said(schema, R"({"a": 1})"_json).empty());
  CHECK(said(schema, R"({"a": "x", "c": 1})"_json) ==
        "a: expected a whole number: \"x\"\nc: unknown key\n");
}

TEST_CASE("texts have lengths, patterns and formats") {
  const json schema = R"x({"properties": {
      "short": {"minLength": 1, "maxLength": 3}, "letters": {"pattern": "^[a-z]+$"},
      "mac": {"format": "mac"}, "four": {"format": "ipv4"}, "six": {"format": "ipv6"},
      "odd": {"pattern": "(?<named>x)", "format": "what"}}})x"_json;
  CHECK(said(schema, R"({"short": "abc", "letters": "a", "mac": "02:00:5e:10:20:30", "four":
      "10.0.0.1", "six": "::1", "odd": "y"})"_json)
            .empty());
  CHECK(cni::complaints(schema, R"({"short": "", "letters": "A", "mac": "01:00:5e:10:20:30",
      "four": "::1", "six": "10.0.0.1"})"_json)
            .size() == 5);
  CHECK(
      said(schema, {{"letters", std::string(1000000, 'a')}}).empty());  // without a deep recursion
}

TEST_CASE("what a schema says in words that are not known is passed over") {
  CHECK(said(true, R"({"a": 1})"_json).empty());
  CHECK(
      said(
          R"({"oneOf": [{"type": "string"}], "if": true, "type": 5, "required": 5, "enum2": []})"_json,
          R"({"a": 1})"_json)
          .empty());
  CHECK(said(R"({"patternProperties": {"^x": true}, "additionalProperties": false})"_json,
             R"({"x1": 1})"_json)
            .empty());
  CHECK(said(R"({"properties": {"a": {"$ref": "other.json#/a"}, "b": {"$ref": "#/nowhere"}}})"_json,
             R"({"a": 1, "b": 2})"_json)
            .empty());
}

TEST_CASE("a schema that leads back to itself ends") {
  CHECK(said(R"({"$ref": "#"})"_json, 5).empty());
  CHECK(said(R"({"anyOf": [{"$ref": "#"}]})"_json, 5).empty());
  CHECK(said(R"({"allOf": [{"$ref": "#"}, {"$ref": "#"}]})"_json, 5).empty());
  CHECK(said(R"({"properties": {"a": {"$ref": "#"}}, "additionalProperties": false})"_json,
             R"({"a": {"a": {"b": 1}}})"_json) == "a.a.b: unknown key\n");
}
