#include "cnitool/command_table.h"

#include <nlohmann/json.hpp>

namespace tool {

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const std::vector<Argument>& all) {
  Json out = Json::array();
  for (const Argument& one : all) {
    out.push_back({{"names", one.names},
                   {"value", one.value},
                   {"what", one.what},
                   {"default", one.otherwise},
                   {"required", one.required},
                   {"many", one.many}});
  }
  return out;
}

}  // namespace

Json json_of(const ProgramInfo& program) {
  Json commands = Json::array();
  for (const CommandInfo& one : program.commands) {
    commands.push_back({{"name", one.name},
                        {"what", one.what},
                        {"positionals", json_of(one.positionals)},
                        {"options", json_of(one.options)}});
  }
  return {{"name", program.name},
          {"what", program.what},
          {"version", program.version},
          {"footer", program.footer},
          {"options", json_of(program.options)},
          {"commands", commands}};
}

}  // namespace tool
