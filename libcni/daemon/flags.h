#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cni {

/// A flag of a command.
struct Flag {
  /// Sets a value. \throws std::invalid_argument with what was expected.
  using Set = std::function<void(const std::string& value)>;

  Flag(const char* name_, const char* type_, const char* description_, Set set_)
      : name(name_), type(type_), description(description_), set(std::move(set_)) {}
  Flag(const char* name_, std::string& value, const char* description_)
      : Flag(name_, "string", description_, [&value](const auto& text) { value = text; }) {}
  Flag(const char* name_, bool& value, const char* description_);

  const char* name;
  const char* type;  ///< of its value, for -help; empty: a boolean, whose value may be left out
  const char* description;
  Set set;
};

/// Reads flags as Go's package flag does: -x VALUE, --x VALUE, -x=VALUE. Returns the text for
/// -help, if that is given. Arguments that are no flags are added to others; null: they are errors.
/// \throws std::invalid_argument.
std::optional<std::string> read_flags(const char* command, const std::vector<Flag>& flags,
                                      std::span<const char* const> arguments,
                                      std::vector<std::string>* others = nullptr);

}  // namespace cni
