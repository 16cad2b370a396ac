#pragma once

#include <concepts>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <utility>

namespace cni {

/// A JSON value as a member of a struct in a header: without it each source that includes the
/// header would parse all of nlohmann/json.hpp. Null by default; a copy is a deep copy.
class JsonValue {
 public:
  JsonValue() noexcept;
  /// A template, because {{"key", 1}} would otherwise be read as the list ["key", 1].
  template <std::same_as<nlohmann::json> T>
  JsonValue(T value) : JsonValue(own(std::move(value))) {}
  JsonValue(const JsonValue& other);
  JsonValue(JsonValue&& other) noexcept;
  JsonValue& operator=(const JsonValue& other);
  JsonValue& operator=(JsonValue&& other) noexcept;
  ~JsonValue();

  nlohmann::json& operator*();
  const nlohmann::json& operator*() const noexcept;
  nlohmann::json* operator->() { return &**this; }
  const nlohmann::json* operator->() const noexcept { return &**this; }
  operator const nlohmann::json&() const noexcept { return **this; }

 private:
  using Owned = std::unique_ptr<nlohmann::json>;

  explicit JsonValue(Owned value) noexcept;
  static Owned own(nlohmann::json value);

  Owned value_;  // none: null
};

}  // namespace cni
