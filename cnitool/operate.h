#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cnitool/output.h"
#include "cnitool/settings.h"
#include "libcni/runtime/runtime.h"

namespace tool {

/// One of add, del, check, gc and status, and what it is about.
struct Operation {
  std::string verb;
  std::string network;  ///< empty: all, for a dry run of gc
  std::string netns;    ///< as the user wrote it; of no meaning to gc and status
  /// gc: what is to stay.
  std::vector<cni::Attachment> keep = {};
  std::vector<cni::Attachment> keep_known = {};  ///< likewise, and an error if unknown
  bool keep_alive = false;  ///< gc: and every attachment whose interface is there
  bool dry_run = false;     ///< gc: only print what would be removed
  bool is_agreed = false;   ///< gc: that it detaches pods that are alive
  bool can_ask = false;     ///< about it, on a terminal
};

/// Runs it. The result of add, "removed" and "unknown" of gc; empty for all others.
/// \throws cni::Error.
nlohmann::ordered_json run(const Operation& operation, const Settings& settings,
                           const cni::RuntimeOptions& options);

/// run(), and prints what it gives: the result of add as its plugin printed it, nothing for the
/// others, or with --json an object. False: gc does not know of something whether its pod lives.
bool operate(const Operation& operation, const Settings& settings,
             const cni::RuntimeOptions& options, const Output& output);

/// The network's list. DEL and GC work although its file was removed or is broken: the cache has a
/// config. \throws cni::Error.
cni::NetworkList network_of(const Operation& operation, const Settings& settings);

/// A hint for an error, as a sentence; empty without one.
std::string hint_for(const cni::Error& error, const Operation& operation, const Settings& settings);

}  // namespace tool
