#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cnitool/command_table.h"

namespace CLI {
class App;
}

namespace tool {

/// The commands and options of a program, read from its command line's own definition: manual page
/// and completion are never out of date. Commands and options without a group are left out: they
/// are not for people.
ProgramInfo program_of(const CLI::App& app, const std::string& version);

/// The groups of the program's options in --help.
constexpr const char* kAttachmentOptions = "Options of the attachment";
constexpr const char* kCommonOptions = "Options of all commands";

/// Parses the words after the program's name. The exit status where they ask for no more than a
/// text, which is printed: --help, --version. \throws cni::Error for a wrong command line.
std::optional<int> parse(CLI::App& app, std::vector<std::string> words);

/// "`cnitool add --help` lists its arguments and options", of the command that was parsed last.
std::string help_command(const CLI::App& app);

/// The options of the program that a command has, for the end of its --help.
std::string inherited_options(const CLI::App& command);

}  // namespace tool
