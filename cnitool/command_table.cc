#include "cnitool/command_table.h"

#include <algorithm>

namespace tool {

const CommandInfo* ProgramInfo::find(const std::string& command) const {
  const auto found =
      std::find_if(commands.begin(), commands.end(),
                   [&command](const CommandInfo& one) { return one.name == command; });
  return found == commands.end() ? nullptr : &*found;
}

}  // namespace tool
