#include "libcni/daemon/flags.h"

#include <algorithm>
#include <stdexcept>
#include <string_view>

#include "libcni/common/error.h"

namespace cni {

namespace {

bool boolean(const std::string& text) {
  for (const char* yes : {"1", "t", "T", "true", "TRUE", "True"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"0", "f", "F", "false", "FALSE", "False"}) {
    if (text == no) return false;
  }
  throw std::invalid_argument("expected true or false");
}

std::string help_of(const char* command, const std::vector<Flag>& flags) {
  std::string out = cat("Usage of ", command, ":\n");
  for (const Flag& flag : flags) {
    out += cat("  -", flag.name, *flag.type == '\0' ? "" : " ", flag.type, "\n        ",
               flag.description, "\n");
  }
  return out;
}

}  // namespace

Flag::Flag(const char* name_, bool& value, const char* description_)
    : Flag(name_, "", description_, [&value](const auto& text) { value = boolean(text); }) {}

std::optional<std::string> read_flags(const char* command, const std::vector<Flag>& flags,
                                      std::span<const char* const> arguments,
                                      std::vector<std::string>* others) {
  bool ended = false;  // by "--"
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--" && !ended) {
      ended = true;
      continue;
    }
    const std::size_t dashes = argument.starts_with("--") ? 2 : argument.starts_with('-');
    const std::string_view text = argument.substr(dashes);
    const auto equals = text.find('=');
    if (ended || dashes == 0 || text.empty() || equals == 0) {
      if (others == nullptr)
        throw std::invalid_argument(cat("unexpected argument '", argument, "'"));
      others->emplace_back(argument);
      continue;
    }
    const std::string_view name = text.substr(0, equals);
    if (name == "h" || name == "help") return help_of(command, flags);
    const auto flag = std::ranges::find(flags, name, &Flag::name);
    if (flag == flags.end()) {
      throw std::invalid_argument(cat("flag provided but not defined: -", name));
    }
    std::string value = "true";
    if (equals != std::string_view::npos) {
      value = text.substr(equals + 1);
    } else if (*flag->type != '\0') {
      if (++i == arguments.size()) {
        throw std::invalid_argument(cat("flag needs an argument: -", name));
      }
      value = arguments[i];
    }
    try {
      flag->set(value);
    } catch (const std::invalid_argument& e) {
      throw std::invalid_argument(
          cat("invalid value \"", value, "\" for flag -", name, ": ", e.what()));
    }
  }
  return std::nullopt;
}

}  // namespace cni
