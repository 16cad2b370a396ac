#include "cnitool/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace tool {

namespace {

// "TEXT:{add,del}": how CLI11 tells of a list of choices.
std::vector<std::string> choices_in(const std::string& type) {
  std::vector<std::string> out;
  const auto open = type.find('{');
  const auto close = type.rfind('}');
  if (open == std::string::npos || close == std::string::npos) return out;
  for (std::size_t at = open + 1; at < close;) {
    const auto end = std::min(type.find(',', at), close);
    out.push_back(type.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

// Flags have no type, and the words of --help and --version are the same for all.
Argument argument_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  Argument out{.what = option.get_description(), .otherwise = option.get_default_str()};
  out.required = option.get_required();
  out.many = option.get_items_expected_max() > 1;
  if (option.get_positional()) {
    out.names = {option.get_name(true)};
  } else {
    for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
    for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  }
  if (option.get_items_expected_max() > 0) out.value = type.substr(0, type.find_first_of(":{"));
  if (option.get_items_expected_max() > 0 && out.value.empty()) out.value = "TEXT";
  out.choices = choices_in(type);
  return out;
}

std::vector<Argument> arguments_of(const CLI::App& app, bool positional) {
  std::vector<Argument> out;
  for (const CLI::Option* const option : app.get_options()) {
    if (option->get_positional() != positional || option->get_group().empty()) continue;
    out.push_back(argument_of(*option));
  }
  return out;
}

}  // namespace

ProgramInfo program_of(const CLI::App& app, const std::string& version) {
  ProgramInfo out{.name = app.get_name(),
                  .what = app.get_description(),
                  .version = version,
                  .footer = app.get_footer(),
                  .options = arguments_of(app, false),
                  .commands = {}};
  const auto shown = [](const CLI::App* command) { return !command->get_group().empty(); };
  for (const CLI::App* const command : app.get_subcommands(shown)) {
    out.commands.push_back({.name = command->get_name(),
                            .what = command->get_description(),
                            .positionals = arguments_of(*command, true),
                            .options = arguments_of(*command, false)});
  }
  return out;
}

}  // namespace tool
