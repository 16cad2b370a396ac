#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cnitool/find_by.h"

/// The commands and options of a program; completion and the manual page are made of it.
namespace tool {

/// An option, a flag or a positional argument.
struct Argument {
  std::vector<std::string> names = {};  ///< "--ifname", "-i"; of a positional argument its one name
  std::string value = {};               ///< what stands for its value: "TEXT"; empty: a flag
  std::vector<std::string> choices = {};  ///< the values that are allowed; empty: any
  std::string what = {};
  std::string otherwise = {};  ///< its default; may be empty
  bool required = false;
  bool many = false;  ///< may be given several times
};

struct CommandInfo {
  std::string name, what;
  std::vector<Argument> positionals, options;
};

struct ProgramInfo {
  std::string name, what, version, footer;
  std::vector<Argument> options;  ///< of all commands
  std::vector<CommandInfo> commands;

  /// Null where there is no such command.
  const CommandInfo* find(const std::string& command) const {
    return find_by(commands, &CommandInfo::name, command);
  }
};

/// All of it, for scripts/dist/manual.py.
nlohmann::ordered_json json_of(const ProgramInfo& program);

}  // namespace tool
