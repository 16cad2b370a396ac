#pragma once

#include <string>

#include "cnitool/command_table.h"

namespace CLI {
class App;
}

namespace tool {

/// What can be said to a program, read from its command line's own definition, so that nothing that
/// is made of it can be out of date. Commands and options without a group are left out: they are
/// not for people.
ProgramInfo program_of(const CLI::App& app, const std::string& version);

}  // namespace tool
