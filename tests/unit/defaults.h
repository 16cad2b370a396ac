#pragma once

#include <nlohmann/json.hpp>

#include "libcni/config/key_schema.h"

/// Puts every default that a schema names into a config, where the key is absent.
inline void put_defaults(const nlohmann::ordered_json& schema, nlohmann::json& conf) {
  if (!schema.contains("properties")) return;
  for (const auto& [key, property] : schema["properties"].items()) {
    if (property.contains("default") && !conf.contains(key)) conf[key] = property["default"];
    if (conf.contains(key) && conf[key].is_object()) put_defaults(property, conf[key]);
  }
}

/// The config with the defaults of a plugin's table in words.
inline nlohmann::json with_defaults(nlohmann::json conf, const cni::Manual& manual) {
  put_defaults(cni::schema_of("any", manual), conf);
  return conf;
}
