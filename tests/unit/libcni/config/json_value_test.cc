#include "libcni/config/json_value.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

using cni::JsonValue;
using nlohmann::json;

TEST_CASE("a JsonValue is null until it gets a value, and after it was moved from") {
  JsonValue value;
  CHECK(value->is_null());
  CHECK(std::as_const(value)->is_null());
  value = json{{"a", 1}};
  CHECK(*value == json::parse(R"({"a": 1})"));
  const JsonValue moved = std::move(value);
  CHECK(moved->at("a") == 1);
  CHECK(std::as_const(value)->is_null());  // NOLINT(bugprone-use-after-move): what is tested
}

TEST_CASE("a copy of a JsonValue is changed alone") {
  const JsonValue one = json::parse("[1]");
  JsonValue other = one;
  other->push_back(2);
  CHECK(one->size() == 1);
  CHECK(other->size() == 2);
  other = one;
  CHECK(*other == *one);
  const json& read = one;
  CHECK(&read == &*one);
}

TEST_CASE("a JsonValue is made of JSON alone: braces would be another value than json's own") {
  CHECK(std::is_convertible_v<json, JsonValue>);
  CHECK(std::is_nothrow_move_constructible_v<JsonValue>);
  CHECK_FALSE(std::is_convertible_v<std::initializer_list<json>, JsonValue>);
  CHECK_FALSE(std::is_convertible_v<int, JsonValue>);
}
