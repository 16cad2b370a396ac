#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cnitool/attachments.h"
#include "cnitool/doctor/diagnose.h"
#include "cnitool/graph.h"
#include "cnitool/list_runtimes.h"
#include "cnitool/operate.h"
#include "cnitool/preset.h"
#include "cnitool/probe/probe.h"
#include "cnitool/settings.h"
#include "cnitool/validate/validate.h"
#include "libcni/plugin/request.h"

namespace CLI {
class App;
}

/// The commands of cnitool, with their arguments and options.
namespace tool {

/// The values that a command line has for them.
struct CommandLine {
  explicit CommandLine(const cni::Env& env) : settings(Settings::from(env)) {}

  Settings settings;
  Operation operation;
  GraphOptions graph;
  Listed listed;
  std::string pod;  ///< [NAMESPACE/]NAME
  std::vector<std::string> keep;
  std::optional<std::string> keep_json;
  bool json = false;
  bool no_undo = false;
  Validation validation;
  PresetOptions preset;
  RuntimesAsked runtimes;
  probe::Options probe;
  std::string subject;  ///< of completion and help
  std::string node;     ///< of blocks, after "release" in place of a network
  bool force = false;   ///< of blocks release
  bool dry_run = false;
  bool back = false;
  bool yes = false;
  bool quiet = false;
  doctor::Scope scope;
  std::string command;
};

/// Defines all of them; parsing fills the line.
void define(CLI::App& app, CommandLine& line);

/// Reads and checks options as far as CLI11 cannot. \throws cni::Error for a wrong command line.
void complete(CommandLine& line);

/// "patchbay 1.2.3".
std::string version_text();

}  // namespace tool
