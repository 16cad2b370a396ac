#pragma once

#include <ctime>
#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/common/error.h"

namespace tool {

using cni::cat;

enum class Colour { kPlain, kBold, kDim, kRed, kGreen, kYellow };
/// The control sequences of Output::painted(), in the order of Colour, and the one that ends them.
std::span<const std::string_view> colour_codes();

/// A word for an outcome, with its colour.
struct PaintedWord {
  std::string_view text;
  Colour colour;
};

/// The stream and the form of a command's output.
struct Output {
  std::ostream& out;
  bool json = false;      ///< for programs
  bool colours = false;   ///< a terminal that shows them
  bool terminal = false;  ///< a terminal: text ends with a line break
  bool quiet = false;     ///< findings alone
  std::size_t width = 0;  ///< characters in a line of the terminal; 0: no terminal, no limit

  std::string painted(Colour colour, std::string_view text) const;
  /// The document with four spaces of indentation, and a line break.
  void print(const nlohmann::ordered_json& doc) const;
};

struct Cell {
  std::string text;
  Colour colour = Colour::kPlain;
};

/// Rows in columns, each as wide as its widest cell. The first row is the heading. If that is wider
/// than the terminal, long IDs are cut, lists wrapped at commas, paths at slashes, and others cut.
void print_table(const Output& output, const std::vector<std::vector<Cell>>& rows);

/// "12s", "5m", "3h", "9d"; "0s" for what is in the future.
std::string age_text(std::time_t seconds);

/// "1 error", "2 errors", "2 addresses".
std::string counted(std::size_t count, std::string_view noun);

/// "a, b, c".
std::string joined(const std::vector<std::string>& texts, std::string_view between = ", ");

/// The text without its end if it is longer than the width.
std::string cut(const std::string& text, std::size_t width);
/// The text in lines of at most the width, broken at blanks, and indented after the first. Each
/// begins at the indent; width 0: one line.
std::string folded(const std::string& text, std::size_t indent, std::size_t width);

/// An error as one line: message; details.
std::string text_of(const cni::Error& error);
/// An error as an object: code, msg, details.
nlohmann::ordered_json json_of(const cni::Error& error);

/// A name that others chose, as text for a terminal: '?' for each byte that is not printable ASCII.
std::string printable(std::string name);

/// Text indented by two spaces for each level, every line of it.
std::string indented(std::string_view text, int levels);

/// JSON if the text is JSON, else a string.
nlohmann::ordered_json json_or_text(const std::string& text);
/// JSON in several lines where text is JSON, else text as it is; without a line break at its end.
std::string pretty(const std::string& text);

}  // namespace tool
