#pragma once

#include <string>

#include "cnitool/command_table.h"

namespace tool {

/// The program's page for section 1 of the manual, in the macros of man(7).
std::string manual_page(const ProgramInfo& program);

/// Becomes man(1), which shows the page in its pager. Returns if the node has no man.
void become_man(const std::string& page);

}  // namespace tool
