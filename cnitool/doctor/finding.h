#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libcni/common/error.h"

namespace tool::doctor {

using cni::cat;

/// The severity of a finding, the least first.
enum class Level {
  kOk,
  kNote,     ///< worth knowing
  kUnknown,  ///< it could not be looked at
  kWarning,  ///< pods work, or not all is as it should be
  kError,    ///< pods do not get a network, or have none
};
/// "ok", "note", "unknown", "warning", "error".
std::string_view str(Level level);

using Names = std::vector<std::string>;

/// One result of a check.
struct Finding {
  Level level = Level::kOk;
  std::string what;
  std::string why = {};     ///< why it matters
  std::string remedy = {};  ///< a command, or the file, key and value to set
  Names networks = {};      ///< that it is about; empty: the node
  Names lines = {};         ///< of what: one for each pod
};
using Findings = std::vector<Finding>;

/// "a, b, c and 4 more".
std::string some_of(const std::vector<std::string>& names);

/// A word of a shell's command, in quotes where it needs them.
std::string quoted(const std::string& word);

}  // namespace tool::doctor
