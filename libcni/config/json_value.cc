#include "libcni/config/json_value.h"

#include <nlohmann/json.hpp>

namespace cni {

JsonValue::JsonValue() noexcept = default;
JsonValue::JsonValue(Owned value) noexcept : value_(std::move(value)) {}
JsonValue::JsonValue(const JsonValue& other) : value_(own(*other)) {}
JsonValue::JsonValue(JsonValue&& other) noexcept = default;
JsonValue& JsonValue::operator=(const JsonValue& other) { return *this = JsonValue(other); }
JsonValue& JsonValue::operator=(JsonValue&& other) noexcept = default;
JsonValue::~JsonValue() = default;

JsonValue::Owned JsonValue::own(nlohmann::json value) {
  return std::make_unique<nlohmann::json>(std::move(value));
}

nlohmann::json& JsonValue::operator*() {
  if (!value_) value_ = own(nullptr);
  return *value_;
}

const nlohmann::json& JsonValue::operator*() const noexcept {
  static const nlohmann::json kNull;
  return value_ ? *value_ : kNull;
}

}  // namespace cni
