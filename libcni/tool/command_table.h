#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

/// What can be said to a program, read from its command line's own definition, so that what is made
/// of it (completion, the manual page) cannot be out of date.
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
  const CommandInfo* find(const std::string& command) const;
};

/// Commands and options without a group are left out: they are not for people.
ProgramInfo program_of(const CLI::App& app, const std::string& version);

}  // namespace tool
