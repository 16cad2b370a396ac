#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "libcni/config/json_value.h"

namespace cni {

/// A stretch of a text, in bytes.
struct Span {
  std::size_t begin = 0, end = 0;
  bool operator==(const Span&) const = default;
};

/// Why a text is not JSON, or not what its writer thinks.
struct TextMistake {
  Span at;
  std::string what;        ///< "a comma before the closing '}'"
  std::string suggestion;  ///< what may have been meant; may be empty
};

/// The place of a value in a document. Paths are those of complaints: "plugins[0].ipam.type"; that
/// of the document itself is empty.
struct TextPlace {
  std::string path;
  Span key;  ///< with its quotes; nothing for elements of a list, and for the document itself
  Span value;
};

/// JSON as a person wrote it: the value, where everything in it stands, and all that is wrong with
/// the text. Slips whose meaning is plain (a comment, a comma too many or too few, the wrong
/// quotes or none, True) do not keep the rest from being read.
struct JsonText {
  bool readable = false;  ///< the text was understood to its end; else value is of no use
  JsonValue value;
  std::vector<TextPlace> places;  ///< in the order in which the values begin
  /// In the order of the text. None where it is JSON that any parser reads in the same way: a
  /// repeated key is a mistake too, of which the last counts, and so is a byte order mark.
  std::vector<TextMistake> mistakes;

  /// The place of a path: as it is spelled, else in any case of letters (the last where keys are
  /// repeated); null where there is none.
  const TextPlace* find(std::string_view path) const;
  /// The same; where there is none that of the nearest value around it. Not for an empty document.
  const TextPlace& nearest(std::string_view path) const;

  /// The value at a path, in any case of letters; null where there is none.
  nlohmann::json* at(std::string_view path);
  /// Gives a key of an object another name, in value and places, unless that is there already. The
  /// place in the text stays. \return whether it did.
  bool respell(const std::string& path, const std::string& key);
};

/// Reads any bytes; never throws for what they are.
JsonText read_json_text(std::string_view text);

/// Whether a byte of UTF-8 begins a character, and how many do in a text.
bool begins_character(char c);
std::size_t characters(std::string_view text);

/// The place of a byte for a person: both begin with 1, and columns are characters.
struct TextPosition {
  std::size_t line = 1, column = 1;
  bool operator==(const TextPosition&) const = default;
};
TextPosition position_in(std::string_view text, std::size_t offset);

}  // namespace cni
