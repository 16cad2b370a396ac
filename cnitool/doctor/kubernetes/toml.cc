#include "cnitool/doctor/kubernetes/toml.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "libcni/common/error.h"

namespace tool::doctor::kubernetes {

namespace {

using nlohmann::json;
using Path = std::vector<std::string>;

constexpr std::string_view kBareKey =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

void append_utf8(std::string& out, unsigned code) {
  const auto byte = [&out](unsigned value) { out += static_cast<char>(value); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      byte(0xe0 | code >> 12);
    } else {
      byte(0xf0 | (code >> 18 & 0x07));
      byte(0x80 | (code >> 12 & 0x3f));
    }
    byte(0x80 | (code >> 6 & 0x3f));
  }
  byte(0x80 | (code & 0x3f));
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  json document() {
    json out = json::object();
    json* table = &out;
    for (skip_lines(); !at_end(); skip_lines()) {
      if (take("[")) {
        table = &header(out);
      } else {
        pair(*table);
      }
      end_of_line();
    }
    return out;
  }

 private:
  static constexpr unsigned kMaxDepth = 64;

  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  [[noreturn]] void fail(const char* what) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<long>(at_), '\n');
    throw std::invalid_argument(cni::cat("line ", line, ": ", what));
  }
  void expect(std::string_view word, const char* what) {
    if (!take(word)) fail(what);
  }

  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t') ++at_;
  }
  void skip_comment() {
    if (peek() == '#') at_ = std::min(text_.find('\n', at_), text_.size());
  }
  // Blanks, comments and line breaks.
  void skip_lines() {
    for (std::size_t before = text_.size() + 1; before != at_;) {
      before = at_;
      skip_blanks();
      skip_comment();
      while (take("\r\n") || take("\n")) continue;
    }
  }
  void end_of_line() {
    skip_blanks();
    skip_comment();
    if (!at_end() && !take("\r\n") && !take("\n")) fail("expected the end of the line");
  }

  // a."b.c".d
  Path key() {
    Path out;
    do {
      skip_blanks();
      if (peek() == '"' || peek() == '\'') {
        out.push_back(text());
      } else {
        const auto end = std::min(text_.find_first_not_of(kBareKey, at_), text_.size());
        if (end == at_) fail("expected a key");
        out.emplace_back(text_.substr(at_, end - at_));
        at_ = end;
      }
      skip_blanks();
    } while (take("."));
    if (out.size() > kMaxDepth) fail("too many parts of a key");
    return out;
  }

  // The table of that path: of a list of tables the last one.
  json& table_at(json& root, Path::const_iterator from, Path::const_iterator to) {
    json* out = &root;
    for (; from != to; ++from) {
      if (!out->is_object()) fail("the key of a value that is no table");
      out = &(*out)[*from];
      if (out->is_null()) *out = json::object();
      if (out->is_array() && !out->empty()) out = &out->back();
    }
    if (!out->is_object()) fail("a value is no table");
    return *out;
  }

  // After the first bracket.
  json& header(json& root) {
    const bool is_list = take("[");
    const Path path = key();
    expect(is_list ? "]]" : "]", "expected the end of a table's name");
    if (!is_list) return table_at(root, path.begin(), path.end());
    json& list = table_at(root, path.begin(), path.end() - 1)[path.back()];
    if (list.is_null()) list = json::array();
    if (!list.is_array()) fail("a value is no list of tables");
    return list.emplace_back(json::object());
  }

  void pair(json& table) {
    const Path path = key();
    expect("=", "expected '=' after a key");
    skip_blanks();
    json& place = table_at(table, path.begin(), path.end() - 1)[path.back()];
    if (!place.is_null()) fail("a key is there twice");
    place = value();
  }

  json value() {
    if (++depth_ > kMaxDepth) fail("too deep");
    json out = peek() == '"' || peek() == '\'' ? json(text())
               : take("[")                     ? list()
               : take("{")                     ? inline_table()
                                               : word();
    --depth_;
    return out;
  }

  json list() {
    json out = json::array();
    for (skip_lines(); !take("]"); skip_lines()) {
      out.push_back(value());
      skip_lines();
      if (!take(",") && peek() != ']') fail("expected ',' or ']' in a list");
    }
    return out;
  }

  json inline_table() {
    json out = json::object();
    for (skip_lines(); !take("}"); skip_lines()) {
      pair(out);
      skip_lines();
      if (!take(",") && peek() != '}') fail("expected ',' or '}' in a table");
    }
    return out;
  }

  // true, 12, 1_000, 0x1f, 3.5, 2024-01-01
  json word() {
    const auto end = std::min(text_.find_first_of(" \t\r\n,]}#", at_), text_.size());
    std::string word(text_.substr(at_, end - at_));
    if (word.empty()) fail("expected a value");
    const bool is_name = word == "true" || word == "false" || word == "inf" || word == "nan";
    const bool is_number = std::string_view("0123456789+-").find(word[0]) != std::string_view::npos;
    if (!is_name && !is_number) {
      fail("expected a value: texts have quotes");
    }
    at_ = end;
    if (word == "true" || word == "false") return word == "true";
    std::string digits = word;
    std::erase(digits, '_');
    long number = 0;
    const char* const first = digits.data() + (digits.starts_with('+') ? 1 : 0);
    const auto [last, error] = std::from_chars(first, digits.data() + digits.size(), number);
    if (error == std::errc() && last == digits.data() + digits.size()) return number;
    return word;
  }

  std::string text() {
    for (const std::string_view quotes : {R"(""")", "'''"}) {
      if (take(quotes)) return long_text(quotes);
    }
    const char quote = peek();
    ++at_;
    std::string out;
    while (peek() != quote) {
      if (at_end() || peek() == '\n') fail("a text without its end");
      if (quote == '"' && take("\\")) {
        escape(out);
      } else {
        out += text_[at_++];
      }
    }
    ++at_;
    return out;
  }

  std::string long_text(std::string_view quotes) {
    if (!take("\r\n")) take("\n");
    std::string out;
    while (!take(quotes)) {
      if (at_end()) fail("a text without its end");
      if (quotes[0] != '"' || !take("\\")) {
        out += text_[at_++];
      } else if (peek() == '\n' || peek() == '\r' || peek() == ' ') {
        at_ = std::min(text_.find_first_not_of(" \t\r\n", at_), text_.size());
      } else {
        escape(out);
      }
    }
    return out;
  }

  // After the backslash.
  void escape(std::string& out) {
    constexpr std::string_view kNames = "btnfr\"\\e", kValues = "\b\t\n\f\r\"\\\x1b";
    const char name = peek();
    ++at_;
    if (const auto known = kNames.find(name); known != kNames.npos) {
      out += kValues[known];
      return;
    }
    const std::size_t size = name == 'u' ? 4 : name == 'U' ? 8 : 0;
    unsigned code = 0;
    const std::string_view digits = text_.substr(std::min(at_, text_.size()), size);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (size == 0 || digits.size() != size || error != std::errc() || end != digits.data() + size ||
        code > 0x10ffff) {
      fail("an unknown escape in a text");
    }
    at_ += size;
    append_utf8(out, code);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  unsigned depth_ = 0;
};

}  // namespace

json parse_toml(std::string_view text) { return Parser(text).document(); }

}  // namespace tool::doctor::kubernetes
