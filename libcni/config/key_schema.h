#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "libcni/config/key.h"

namespace cni {

/// The JSON Schema (draft 2020-12) of a plugin's config, as it stands in a file and as the plugin
/// reads it. It says what the tables say; what keys demand of each other only the plugin knows.
/// - Keys are spelled as documented; a plugin takes them in any case.
/// - A key that may be absent may be null.
/// - A key that is not described is refused, though a plugin passes it over: it is a slip of the
///   pen. Only the objects that others have a part in are open: args, runtimeConfig, the "ipam" of
///   a plugin that delegates, and for an IPAM plugin all but its "ipam".
/// - errorMessage says in words what is expected where type and range do not.
/// release is for its description: "patchbay 0.2.0".
nlohmann::ordered_json schema_of(const std::string& plugin, const Manual& manual,
                                 const std::string& release = {});

/// The same of a document that is no plugin's config.
struct Heading {
  std::string title, description;
};
nlohmann::ordered_json schema_of_object(const Heading& heading, const Key& object);

/// Markdown without its backticks.
std::string plain(std::string_view markdown);

}  // namespace cni
