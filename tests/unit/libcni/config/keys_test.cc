#include "libcni/config/keys.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/libcni/sample_keys.h"

using sample::Conf;

namespace {

Conf parse(const std::string& text) {
  const auto doc = nlohmann::json::parse(text);
  Conf conf;
  cni::read_keys(cni::Reader(doc), sample::kKeys, conf);
  return conf;
}

std::string complaint(const std::string& text) {
  try {
    parse(text);
  } catch (const cni::Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

// Constant data: nothing is done for it when a plugin starts.
static_assert(sample::kKeys.list[0].name == std::string_view("flag"));
static_assert(sample::kKeys.list[2].maximum == 255);
static_assert(sample::kKeys.list[12].lists == 2);

TEST_CASE("keys that are absent or null leave the fields as they are") {
  CHECK(parse("{}") == Conf{});
  CHECK(parse(R"({"flag": null, "text": null, "items": null, "grid": null, "deep": null,
                  "runtimeConfig": null, "other": 5})") == Conf{});
}

TEST_CASE("every kind of field is filled") {
  const Conf conf = parse(R"({"flag": true, "text": "new", "small": 255, "large": -5, "mtu": 68,
      "colour": "green", "maybe": "red", "texts": [], "address": "10.0.0.1", "nets": ["10.0.0.0/8"],
      "deep": false, "items": [{"net": "fd00::/8"}, {"net": "10.0.0.0/8", "port": 1}],
      "grid": [[1, 2], [], [3]], "shout": "ho", "runtimeConfig": {"given": "x"}})");
  CHECK(conf.flag);
  CHECK(conf.text == "new");
  CHECK(conf.small == 255);
  CHECK(conf.large == -5);
  CHECK(conf.mtu == 68);
  CHECK(conf.colour == sample::Colour::kGreen);
  CHECK(conf.maybe == sample::Colour::kRed);
  CHECK(conf.texts.empty());
  CHECK(conf.address == cni::Ip::parse("10.0.0.1"));
  CHECK(conf.nets.at(0).str() == "10.0.0.0/8");
  CHECK_FALSE(conf.inner.deep);
  REQUIRE(conf.items.size() == 2);
  CHECK(conf.items[0] == sample::Item{*cni::Cidr::parse("fd00::/8"), 7});
  CHECK(conf.items[1].port == 1);
  CHECK(conf.grid == std::vector<std::vector<unsigned>>{{1, 2}, {}, {3}});
  CHECK(conf.shout == "ho!");
  CHECK(conf.by_runtime == "x");
}

TEST_CASE("keys match in any case") {
  CHECK(parse(R"({"FLAG": true, "RuntimeConfig": {"Given": "x"}})").by_runtime == "x");
  CHECK(parse(R"({"Small": 3, "small": 4})").small == 4);
}

TEST_CASE("an empty text is none where the table says so") {
  CHECK_FALSE(parse(R"({"address": "", "maybe": ""})").maybe);
  CHECK(complaint(R"({"colour": ""})") == "colour: expected \"red\" or \"green\": \"\"");
}

TEST_CASE("zero is allowed beside a range where the table says so") {
  CHECK(parse(R"({"mtu": 0})").mtu == 0);
  CHECK(complaint(R"({"mtu": 67})") == "mtu: expected 0 or 68 to 9000: 67");
  CHECK(complaint(R"({"mtu": 9001})") == "mtu: expected an integer from 0 to 9000: 9001");
}

TEST_CASE("what does not fit the field is refused with its place") {
  const struct {
    const char *conf, *complaint;
  } table[] = {
      {R"({"flag": "yes"})", "flag: expected true or false: \"yes\""},
      {R"({"small": 256})", "small: expected an integer from 0 to 255: 256"},
      {R"({"large": -6})", "large: expected an integer of at least -5: -6"},
      {R"({"maybe": "blue"})", "maybe: expected \"red\" or \"green\": \"blue\""},
      {R"({"texts": ["a", 1]})", "texts[1]: expected a string: 1"},
      {R"({"items": [{"net": "10.0.0.0/8"}, {}]})",
       "items[1].net: expected a string: the key is missing"},
      {R"({"items": [null]})", "items[0].net: expected a string: the key is missing"},
      {R"({"items": [5]})", "items[0]: expected an object: 5"},
      {R"({"items": {}})", "items: expected a list: {}"},
      {R"({"grid": [[1], [10]]})", "grid[1][0]: expected an integer from 0 to 9: 10"},
      {R"({"grid": [1]})", "grid[0]: expected a list: 1"},
      {R"({"shout": "no"})", "shout: expected something to shout: \"no\""},
      {R"({"runtimeConfig": []})", "runtimeConfig: expected an object: []"},
      {R"({"runtimeConfig": {"given": 1}})", "runtimeConfig.given: expected a string: 1"},
  };
  for (const auto& row : table) {
    CAPTURE(row.conf);
    CHECK(complaint(row.conf) == row.complaint);
  }
}

TEST_CASE("of two mistakes the table's order decides") {
  CHECK(complaint(R"({"text": 1, "flag": 1})").starts_with("flag"));
}
