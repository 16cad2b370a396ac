#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "libcni/config/result.h"
#include "libcni/plugin/collect.h"
#include "libcni/plugin/invoke.h"
#include "libcni/plugin/plugin.h"
#include "libcni/plugin/repair.h"
#include "libcni/plugin/request.h"

namespace cni {

/// A plugin that another one calls: an IPAM plugin, or the delegate of a meta plugin. If its file
/// is of the build that runs, and has it, it is called without another process.
struct Delegate {
  std::string type;                ///< its name in the config
  std::string file;                ///< as of find_plugin()
  const Plugin* linked = nullptr;  ///< null: another process
  const char* role = "plugin";     ///< in messages
  const char* mark = nullptr;      ///< a variable that it gets besides those of the request, as "1"
  bool finds_none = false;         ///< it gets a CNI_PATH without plugins
  std::chrono::seconds limit = kDelegateLimit;

  /// The plugin of that name in the request's CNI_PATH, any one. key: where the config names it.
  /// \throws as find_plugin().
  static Delegate find(const Request& request, const std::string& type, std::string_view key);
};

/// What a delegate reads from its environment and stdin: those of request with another config, or
/// with another command alone. \throws Error as Request::read().
Request request_with(const Request& request, Command command, std::string config);
Request request_with(const Request& request, Command command);

/// The outcome of a verb in another process, its stderr noted. \throws as execute().
Outcome run_delegate(const Delegate& delegate, const Request& request, Command command);

/// The result that ADD printed. \throws Error where it cannot be read.
Result result_of(const Delegate& delegate, const Request& request, const Outcome& outcome);

/// ADD. \throws Error: the delegate's own code and text.
Result delegate_add(const Delegate& delegate, const Request& request);
/// DEL, CHECK, STATUS or GC. \throws Error: the delegate's own code and text.
void delegate_forward(const Delegate& delegate, const Request& request, Command command);
/// GC; to look, and to remove what is named, of one that announces that it can.
void delegate_collect(const Delegate& delegate, const Request& request, Collect& collect);

/// Whether it has REPAIR, RECLAIM or MIGRATE. \throws as execute().
bool has_verb(const Delegate& delegate, const Request& request, Command command);
/// One of those that it has; the config of request says what repair does. The result is that of
/// REPAIR. \throws Error: the delegate's own code and text.
std::optional<Result> delegate_repair(const Delegate& delegate, const Request& request,
                                      Command command, Repair& repair);

}  // namespace cni
