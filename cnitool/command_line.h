#pragma once

#include <string>

#include "cnitool/command_table.h"

namespace CLI {
class App;
}

namespace tool {

/// The commands and options of a program, read from its command line's own definition: manual page
/// and completion are never out of date. Commands and options without a group are left out: they
/// are not for people.
ProgramInfo program_of(const CLI::App& app, const std::string& version);

}  // namespace tool
