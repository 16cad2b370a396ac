#pragma once

#include <string>

#include "cnitool/command_table.h"

namespace tool {

/// The program's page for section 1 of the manual, in the macros of man(7).
std::string manual_page(const ProgramInfo& program);

/// Shows a page on the terminal with man(1) and its pager. False: the node has no man.
bool show_with_man(const std::string& page);

}  // namespace tool
