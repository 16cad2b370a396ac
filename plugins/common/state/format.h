#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "libcni/config/conf.h"

namespace plugins {

/// The JSON of a state file; nothing for a torn one. \throws cni::Error for one of a later format
/// (names::later_format()), which only a newer version can undo.
std::optional<nlohmann::json> document_in(const std::string& text);

/// \throws cni::Error for a state file that is JSON, hence not torn, but no state that this version
/// knows: another version wrote it, and only that can undo what the file says.
[[noreturn]] void refuse_content(std::string_view why);

/// Makes the JSON of an earlier release that of this one, which it leaves as it is.
using Modernize = void (*)(nlohmann::json& state);

/// Calls read with the JSON of a state file, but not for a torn one. modernize may be null.
/// \throws cni::Error: document_in(); refuse_content() where one of them fails.
void read_document(const std::string& text, Modernize modernize,
                   const std::function<void(const cni::Reader& root)>& read);

}  // namespace plugins
