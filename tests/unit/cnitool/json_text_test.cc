#include "cnitool/validate/json_text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

using cni::read_json_text;
using nlohmann::json;

namespace {

std::vector<std::string> examples() {
  std::vector<std::string> out;
  const auto dir = std::filesystem::path(__FILE__).parent_path() / "../../../conf-examples";
  for (const auto& file : std::filesystem::directory_iterator(dir)) {
    if (file.path().extension() != ".conflist") continue;
    std::ostringstream text;
    text << std::ifstream(file.path()).rdbuf();
    out.push_back(text.str());
  }
  return out;
}

// What holds for any text: it is right exactly where another parser takes it.
void check_any(const std::string& text) {
  const cni::JsonText got = read_json_text(text);
  const json other = json::parse(text, nullptr, false);
  const bool repeated = std::any_of(got.mistakes.begin(), got.mistakes.end(), [](const auto& one) {
    return one.what.find("duplicate key") != std::string::npos;
  });
  if (!repeated) CHECK_MESSAGE(got.mistakes.empty() != other.is_discarded(), text);
  if (got.mistakes.empty()) CHECK(*got.value == other);
  CHECK_FALSE(got.places.empty());
  CHECK(std::all_of(got.mistakes.begin(), got.mistakes.end(), [&](const auto& one) {
    return one.at.begin <= one.at.end && one.at.end <= text.size() && !one.what.empty();
  }));
  CHECK(std::all_of(got.places.begin(), got.places.end(),
                    [&](const auto& one) { return one.value.begin <= text.size(); }));
}

std::string text_of(const std::string& text, const std::string& path) {
  const cni::JsonText got = read_json_text(text);
  const auto* const place = got.find(path);
  if (place == nullptr) return "(none)";
  return text.substr(place->value.begin, place->value.end - place->value.begin);
}

}  // namespace

TEST_CASE("json text: every value is where it stands, under the path that complaints have") {
  const std::string text = R"( {"a": [1, {"b c": "x"}, []], "cni.dev/d": {"E": null}} )";
  CHECK(text_of(text, "") == text.substr(1, text.size() - 2));
  CHECK(text_of(text, "a") == R"([1, {"b c": "x"}, []])");
  CHECK(text_of(text, "a[0]") == "1");
  CHECK(text_of(text, "a[1].b c") == "\"x\"");
  CHECK(text_of(text, "a[2]") == "[]");
  CHECK(text_of(text, "cni.dev/d.e") == "null");  // in any case
  CHECK(text_of(text, "a[3]") == "(none)");
  const cni::JsonText got = read_json_text(text);
  CHECK(got.nearest("a[1].nothing.more").path == "a[1]");
  CHECK(got.nearest("nothing").path.empty());
  CHECK(got.find("a")->key == cni::Span{2, 5});
}

TEST_CASE("json text: slips are mended, and the rest is read") {
  const cni::JsonText got =
      read_json_text("{'a': 1,, b: [True, 012, yes,],\n\"c\": 2 // d\n \"a\": 3");
  CHECK_FALSE(got.readable);  // the end is missing
  const cni::JsonText whole =
      read_json_text("{'a': 1,, b: [True, 012, yes,],\n\"c\": 2 // d\n \"a\": 3}");
  CHECK(whole.readable);
  CHECK(*whole.value == json::parse(R"({"a": 3, "b": [true, "012", "yes"], "c": 2})"));
  CHECK(whole.mistakes.size() == 10);
  CHECK(std::is_sorted(whole.mistakes.begin(), whole.mistakes.end(),
                       [](const auto& a, const auto& b) { return a.at.begin < b.at.begin; }));
}

TEST_CASE("json text: a position counts characters") {
  CHECK(cni::position_in("a\nbc", 3) == cni::TextPosition{2, 2});
  CHECK(cni::position_in("\xC3\xBC\"", 2) == cni::TextPosition{1, 2});
  CHECK(cni::position_in("", 0) == cni::TextPosition{1, 1});
}

TEST_CASE("json text: a key is given another name in value and places") {
  cni::JsonText got = read_json_text(R"({"plugin": [{"typ": {"x": 1}, "type2": 2}]})");
  CHECK(got.respell("plugin", "plugins"));
  CHECK(got.respell("plugins[0].typ", "type"));
  CHECK_FALSE(got.respell("plugins[0].type2", "Type"));
  CHECK_FALSE(got.respell("plugins[0].none", "some"));
  CHECK(*got.value == json::parse(R"({"plugins": [{"type": {"x": 1}, "type2": 2}]})"));
  CHECK(got.find("plugins[0].type.x") != nullptr);
  CHECK(*got.at("plugins[0].type.x") == 1);
  CHECK(got.at("plugins[1]") == nullptr);
  CHECK(got.at("plugins[999999999999999999999]") == nullptr);
  CHECK(got.at("plugins[") == nullptr);
}

TEST_CASE("json text: what nests deeper than any config is refused") {
  CHECK(read_json_text(std::string(1000, '[') + std::string(1000, ']')).mistakes.empty());
  CHECK_FALSE(read_json_text(std::string(1001, '[') + std::string(1001, ']')).readable);
  CHECK_FALSE(read_json_text(std::string(1'000'000, '[')).readable);
}

TEST_CASE("json text: truncations of every example at every byte are mistakes, not crashes") {
  REQUIRE(examples().size() >= 8);
  for (const std::string& text : examples()) {
    check_any(text);
    CHECK(read_json_text(text).mistakes.empty());
    const std::size_t end = text.find_last_of('}');
    for (std::size_t i = 0; i <= end; ++i) check_any(text.substr(0, i));
  }
}

TEST_CASE("json text: any damage to an example is found where another parser finds any") {
  std::mt19937 random(7);
  const std::string bytes("{}[]\",:'\\/#*x019-+.tfn \n\t\x01\xC3\xFF");
  for (const std::string& text : examples()) {
    for (int i = 0; i < 500; ++i) {  // fuzz_json_text asks the same, for longer
      std::string damaged = text;
      for (int k = 0; k < 1 + i % 3; ++k) {
        damaged[random() % damaged.size()] = bytes[random() % bytes.size()];
      }
      check_any(damaged);
    }
  }
}
