#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/config/json_value.h"
#include "libcni/plugin/repair.h"
#include "libcni/runtime/plugin_answer.h"
#include "libcni/runtime/runtime.h"

/// A runtime's call of one plugin.
namespace cni {

/// The input of a call beside the plugin's own config.
struct Call {
  Command command = Command::kVersion;
  const Target* target = nullptr;    ///< none for GC and STATUS
  JsonValue prev_result = {};        ///< null: none
  JsonValue valid_attachments = {};  ///< for GC
  JsonValue remove = {};             ///< for GC instead: tags, see Collect
  bool only_look = false;            ///< for REPAIR, RECLAIM, MIGRATE
  Form form = Form::kOwn;            ///< for MIGRATE
};

/// A plugin's environment. target: null if the call is about no attachment.
Env environment_for(const RuntimeOptions& options, Command command, const Target* target);

class PluginCaller {
 public:
  PluginCaller(const RuntimeOptions& options, const NetworkList& list)
      : options_(options), list_(list) {}

  /// Runs the plugin and gives what it printed. Its stderr is passed on.
  /// \throws Error: `plugin type="T" failed (add): ...`, with the plugin's code and details.
  std::string call(const PluginConf& plugin, const Call& call) const;

  /// call() for ADD; what it printed is a result.
  nlohmann::ordered_json add(const PluginConf& plugin, const Call& call) const;

  /// call() for REPAIR.
  RepairAnswer repair(const PluginConf& plugin, const Call& call) const;

  /// call() for RECLAIM or MIGRATE: what was wrong.
  std::vector<std::string> found_by(const PluginConf& plugin, const Call& call) const;

  /// Whether a folder of the path has it.
  bool has_plugin(const PluginConf& plugin) const noexcept;

  /// \throws Error as call() where one of the plugins is not there.
  void require_plugins(Command command) const;

  Runtime::PluginVersions versions(const PluginConf& plugin) const;

  /// Whether the plugin announces a verb beyond the spec. \throws Error where VERSION fails.
  bool has_verb(const PluginConf& plugin, Command verb) const;

 private:
  std::string key_of(const PluginConf& plugin) const;
  std::string input(const PluginConf& plugin, const Call& call) const;
  std::string run(const PluginConf& plugin, Command command, const Executable& program,
                  const std::string& input) const;
  std::string run_unlogged(const PluginConf& plugin, Command command, const Executable& program,
                           const std::string& input) const;

  const RuntimeOptions& options_;
  const NetworkList& list_;
};

}  // namespace cni
