#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace plugins {

/// The format of state files that this version writes and reads. A file of format 1 does not name
/// it. A later format is a number, `"format": 2`, in the object, or in each object of the list: a
/// member whose meaning or absence an earlier version cannot know. Members that an earlier version
/// may ignore need no new format.
inline constexpr int kStateFormat = 1;

/// The JSON of a state file; nothing for a torn one. \throws cni::Error for one of a later format,
/// which only a newer version can undo.
std::optional<nlohmann::json> document_in(const std::string& text);

}  // namespace plugins
