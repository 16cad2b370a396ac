#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/config/conf.h"

namespace plugins {

/// The format of state files that this version writes and reads. A file of format 1 does not name
/// it. A later format is a number, `"format": 2`, in one of state_objects(): a member whose meaning
/// or absence an earlier version cannot know. Members that an earlier version may ignore need no
/// new format.
inline constexpr int kStateFormat = 1;

/// The objects of a state file that have the keys of an attachment: the document, or each of its
/// list, and in a file of which the reference plugin reads the rest the member "patchbay".
std::vector<const nlohmann::json*> state_objects(const nlohmann::json& document);

/// The later format of a state file that a newer version wrote; empty: it is none.
/// \param newest that this version reads of such files
std::string later_format(const nlohmann::json& document, int newest = kStateFormat);

/// The JSON of a state file; nothing for a torn one. \throws cni::Error for one of a later format,
/// which only a newer version can undo.
std::optional<nlohmann::json> document_in(const std::string& text, int newest = kStateFormat);

/// \throws cni::Error for a state file that is JSON, hence not torn, but no state that this version
/// knows: another version wrote it, and only that can undo what the file says.
[[noreturn]] void refuse_content(std::string_view why);

/// Makes the JSON of an earlier release that of this one, which it leaves as it is.
using Modernize = void (*)(nlohmann::json& state);

/// What else is to be known of files of one kind.
struct Reading {
  Modernize modernize = nullptr;
  int newest = kStateFormat;  ///< the latest format of such files
};

/// Calls read with the JSON of a state file, but not for a torn one.
/// \throws cni::Error: document_in(); refuse_content() where one of them fails.
void read_document(const std::string& text, const Reading& how,
                   const std::function<void(const cni::Reader& root)>& read);

}  // namespace plugins
