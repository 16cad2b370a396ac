#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "libcni/plugin/plugin.h"

namespace cni {

/// A command of a multi-call binary that is no plugin: the first argument is its name.
struct SuiteCommand {
  const char* name;
  const char* help;  ///< of its line in --help
  /// argv[0] is the name. Returns the exit status.
  int (*run)(std::span<const Plugin* const> plugins, int argc, char** argv);
};

/// main() of a multi-call binary: argv[0] selects the plugin (also with something before a
/// dash or behind a dot: "cnv-bridge", "bridge.real"), or else the first argument. `--list` in its
/// place prints the names of all plugins, one a line. `--version`, or nothing where no runtime
/// calls, prints the version on stderr, as k3s's executable does. Anything else fails, for a
/// runtime with an error object. plugins lasts as long as the process.
int suite_main(std::span<const Plugin* const> plugins, std::span<const SuiteCommand> commands,
               int argc, char** argv);

/// Whether it is a plugin that suite_main() or single_main() was given.
bool is_of_suite(const Plugin& plugin) noexcept;
/// The version that it states; that of this build for such a plugin. Empty: unknown.
std::string_view version_of(const Plugin& plugin) noexcept;

/// The plugin of this executable that a type stands for, whatever CNI_PATH has; null: there is
/// none.
const Plugin* plugin_named(std::string_view type) noexcept;
/// The plugin of this executable that a call by the name type would be, where file is this
/// executable or another one of the same build: it can be called without another process. Null
/// otherwise.
const Plugin* own_plugin(std::string_view type, const std::string& file) noexcept;
/// The same of an IPAM plugin.
const Plugin* linked_plugin(std::string_view type, const std::string& file) noexcept;

/// Refuses a plugin of this build that is no IPAM plugin: run as one, it would run its own
/// IPAM plugin, itself, without end. Nothing is known of other types, nor of a "foo-bridge" in
/// another file. \throws Error(kInvalidConfig).
void require_ipam(std::string_view type, const std::string& file);
/// Whether it is the name of an IPAM plugin of this build. Those call no plugin.
bool calls_no_plugin(std::string_view type) noexcept;

/// Runs a verb of a plugin in this process, as a delegate of the one that runs. request is what the
/// delegate would have been given. The result is that of ADD, else empty. \throws Error as the
/// delegate would have printed it.
Result call(const Plugin& plugin, const Request& request);
/// The same of REPAIR, RECLAIM or MIGRATE, which the plugin has. The result is that of REPAIR.
std::optional<Result> call(const Plugin& plugin, const Request& request, Repair& repair);

}  // namespace cni
