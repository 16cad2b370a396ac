#pragma once

#include <string>

#include "cnitool/command_table.h"

namespace tool {

/// The program's page for section 1 of the manual, in the macros of man(7).
std::string manual_page(const ProgramInfo& program);

/// Executes man(1), which shows the page in its pager. Returns if the node has no man.
void exec_man(const std::string& page);

}  // namespace tool
