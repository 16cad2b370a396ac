#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

/// The parts of JSON Schema that complaints() in libcni/schema.h is made of.
namespace cni {

/// A keyword's value; null where the schema is no object or has no such keyword.
const nlohmann::json* keyword(const nlohmann::json& schema, const char* name);

/// What $ref leads to, within the root; the schema true where it leads elsewhere or to itself.
const nlohmann::json& resolved(const nlohmann::json& root, const nlohmann::json& schema);

/// Whether the keywords that look at the value itself allow it: type, enum, const, minimum,
/// maximum, minLength, maxLength, minItems, maxItems, pattern, format.
bool allows(const nlohmann::json& schema, const nlohmann::json& value);

/// Whether the schema's type, if it has any, is the value's.
bool allows_type(const nlohmann::json& schema, const nlohmann::json& value);

/// What a schema expects, to be read after "expected": its errorMessage, else in words of ours.
/// Empty where nothing is left to expect.
std::string expectation(const nlohmann::json& root, const nlohmann::json& schema);

}  // namespace cni
