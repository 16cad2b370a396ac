#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/common/error.h"
#include "libcni/common/undo.h"
#include "libcni/plugin/invoke.h"
#include "libcni/plugin/request.h"
#include "libcni/runtime/cache.h"
#include "libcni/runtime/conflist.h"

namespace cni {

/// One call of one plugin, for an observer. Everything is borrowed for the time of the call.
struct PluginRun {
  Command command;
  const PluginConf& plugin;
  const std::string& file;   ///< the executable
  const std::string& input;  ///< its stdin
  const Outcome& outcome;    ///< what it left; nothing where it could not be run to its end
  const Error* error;        ///< null: it succeeded
  std::chrono::microseconds took;
};

/// The deadline of a plugin. The kubelet gives a sandbox four minutes in all, a plugin gives its
/// IPAM plugin kDelegateLimit. A plugin that is killed here cannot undo its changes.
inline constexpr std::chrono::seconds kPluginLimit{220};

/// Verbs beyond the spec that plugins announce in VERSION, by type: each plugin is asked once.
struct KnownVerbs {
  std::mutex mutex;
  std::map<std::string, std::vector<std::string>> of;
};

struct RuntimeOptions {
  std::vector<std::string> path;  ///< the directories where plugins are
  std::string cache_dir = Cache::kDefaultDir;
  /// The environment of plugins beside the CNI_* variables. TRACEPARENT, TRACESTATE and BAGGAGE
  /// (W3C Trace Context) go in here; plugins pass them on to their delegates.
  Env env = current_environment();
  std::chrono::seconds limit = kPluginLimit;  ///< for one call of one plugin, or kNoLimit
  /// After a failed ADD the plugins that were called are called with DEL.
  bool undo_failed_add = true;
  /// Gets what a plugin wrote to stderr, without the last line break. Empty: nobody does.
  std::function<void(std::string_view text)> pass_stderr = note;
  /// Called after every call of a plugin.
  std::function<void(const PluginRun&)> observer = {};
  /// A file descriptor that becomes readable when the operation is to be given up: the plugin that
  /// runs is killed, ADD is undone. -1 is none.
  int stop_fd = -1;
  /// The deadline for another operation on the container or the network.
  std::chrono::milliseconds lock_limit{240'000};
  /// For many attachments in a row; null: VERSION is called for each.
  std::shared_ptr<KnownVerbs> known_verbs = nullptr;
};

}  // namespace cni
