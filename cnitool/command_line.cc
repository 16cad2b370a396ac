#include "cnitool/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "libcni/common/error.h"
#include "libcni/config/nearest.h"

namespace tool {

namespace {

using cni::cat;

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

std::string name_of_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app.get_name() : cat(app.get_name(), " ", chosen[0]->get_name());
}

// The words that may stand in place of an unknown one.
std::vector<std::string> known_words(const CLI::App& app, bool options) {
  std::vector<std::string> out;
  const auto add = [&out](const std::vector<Argument>& all) {
    for (const Argument& one : all) out.insert(out.end(), one.names.begin(), one.names.end());
  };
  if (options) {
    add(arguments_of(app, false));
    for (const CLI::App* const command : app.get_subcommands()) add(arguments_of(*command, false));
  } else if (app.get_subcommands().empty()) {
    for (const CLI::App* command : app.get_subcommands({})) out.push_back(command->get_name());
  }
  return out;
}

cni::Error unexpected(const CLI::App& app, const std::string& word) {
  const bool is_option = word.starts_with('-');
  const std::string text = word.substr(0, is_option ? word.find('=') : word.npos);
  const char* const what = is_option                       ? "option"
                           : app.get_subcommands().empty() ? "command"
                                                           : "argument";
  const std::string meant = cni::nearest(text, known_words(app, is_option));
  return {cni::Code::kInvalidEnvironment,
          cat(name_of_command(app), ": unknown ", what, " '", text, "'",
              meant.empty() ? "" : cat(" (did you mean ", meant, "?)"))};
}

}  // namespace

std::optional<int> parse(CLI::App& app, std::vector<std::string> words) try {
  std::ranges::reverse(words);  // as CLI11 takes them
  app.parse(std::move(words));
  if (app.get_subcommands().empty()) throw CLI::RequiredError("a command");
  return std::nullopt;
} catch (const CLI::ParseError& e) {
  const std::vector<std::string> unknown = app.remaining(true);
  if (!unknown.empty()) throw unexpected(app, unknown[0]);
  if (e.get_exit_code() == 0) return app.exit(e);
  throw cni::Error(cni::Code::kInvalidEnvironment, cat(name_of_command(app), ": ", e.what()));
}

std::string help_command(const CLI::App& app) {
  return cat("`", name_of_command(app), " --help` lists ",
             app.get_subcommands().empty() ? "all commands" : "its arguments and options");
}

std::string inherited_options(const CLI::App& command) {
  std::string out;
  const CLI::Option* const netns = command.get_option_no_throw("netns");
  const bool attaches = netns != nullptr && !netns->get_group().empty();
  for (const char* const group : {kAttachmentOptions, kCommonOptions}) {
    if (group == kAttachmentOptions && !attaches) continue;
    const auto is_in = [group](const CLI::Option* option) { return option->get_group() == group; };
    out += CLI::Formatter().make_group(group, false, command.get_parent()->get_options(is_in));
  }
  return out.substr(1);  // without the empty line before the first
}

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
