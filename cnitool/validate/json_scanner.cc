#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "cnitool/validate/json_text.h"
#include "libcni/common/error.h"
#include "libcni/config/json.h"
#include "libcni/config/nearest.h"

namespace cni {

namespace {

using nlohmann::json;

constexpr std::string_view kMark = "\xEF\xBB\xBF";  // the byte order mark in UTF-8
constexpr int kMaxNesting = 1000;                   // as parse_json()

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool is_bare(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '+' ||
         c == '.';
}

bool begins_bare(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// A reason in few words, which nlohmann's message does not have.
std::string why_no_text(std::string_view token) {
  for (const char c : token) {
    if (static_cast<unsigned char>(c) < 0x20)
      return "a control character in a text; write \\n, \\t";
  }
  const auto backslash = token.find('\\');
  return backslash == std::string_view::npos
             ? "a text that is not UTF-8"
             : R"(an escape that JSON does not have (it has \" \\ \/ \b \f \n \r \t \uXXXX))";
}

std::string why_no_number(std::string_view token) {
  if (token.starts_with('+')) return "a number with a plus sign";
  const auto digits = token.substr(token.starts_with('-') ? 1 : 0);
  if (lower(digits).starts_with("0x")) return "a hexadecimal number";
  if (digits.size() > 1 && digits[0] == '0' && std::isdigit(digits[1]) != 0) {
    return "a number that begins with 0";
  }
  return "not a number";
}

/// Reads one text: what JSON is (RFC 8259), and what people write instead.
class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  JsonText scan() {
    try {
      document();
      out_.readable = true;
    } catch (const Stop&) {
      out_.value = {};
    }
    if (out_.places.empty()) out_.places.push_back({"", {}, {0, 0}});
    const auto before = [](const TextMistake& a, const TextMistake& b) {
      return a.at.begin < b.at.begin;
    };
    std::ranges::stable_sort(out_.mistakes, before);
    return std::move(out_);
  }

 private:
  /// The rest cannot be understood; the mistake is noted.
  struct Stop {};

  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool starts(std::string_view what) const { return text_.substr(at_).starts_with(what); }

  void note(Span at, std::string what, std::string suggestion = {}) {
    at.end = std::min(at.end, text_.size());  // what is missing at the end has no character
    out_.mistakes.push_back({at, std::move(what), std::move(suggestion)});
  }

  [[noreturn]] void stop(Span at, std::string what, std::string suggestion = {}) {
    note(at, std::move(what), std::move(suggestion));
    throw Stop{};
  }

  // Names the character here.
  std::string here() const {
    if (at_end()) return "the end of the file";
    const auto c = static_cast<unsigned char>(peek());
    if (c < 0x20 || c >= 0x7F) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      return cat("the byte 0x", kDigits.substr(c >> 4U, 1), kDigits.substr(c & 15U, 1));
    }
    return cat("'", peek(), "'");
  }

  std::string line_of(std::size_t offset) const {
    return cat("line ", position_in(text_, offset).line);
  }

  void comment(std::string_view begin, std::string_view end) {
    const std::size_t from = at_;
    const auto found = text_.find(end, at_ + begin.size());
    at_ = found == std::string_view::npos ? text_.size() : found + (end == "\n" ? 0 : end.size());
    note({from, at_}, "a comment, which JSON does not have");
  }

  void blank() {
    for (;;) {
      while (!at_end() && is_blank(peek())) ++at_;
      if (starts("//")) {
        comment("//", "\n");
      } else if (starts("/*")) {
        comment("/*", "*/");
      } else if (starts("#")) {
        comment("#", "\n");
      } else {
        return;
      }
    }
  }

  std::string_view bare() {
    const std::size_t from = at_;
    while (!at_end() && is_bare(peek())) ++at_;
    return text_.substr(from, at_ - from);
  }

  // Passes over a text in quotes, to behind the closing one.
  void quoted(char quote) {
    const std::size_t from = at_++;
    while (!at_end() && peek() != '\n' && peek() != quote) at_ += peek() == '\\' ? 2U : 1U;
    at_ = std::min(at_, text_.size());
    if (at_end() || peek() != quote) {
      stop({from, at_}, "the closing quote of this text is missing on its line");
    }
    ++at_;
  }

  json text() {
    const std::size_t from = at_;
    const char quote = peek();
    quoted(quote);
    std::string token(text_.substr(from, at_ - from));
    if (quote == '\'') {
      const json plain = token.substr(1, token.size() - 2);
      if (!json::accept("\"" + plain.get<std::string>() + "\"")) {
        stop({from, at_}, "a text in single quotes; JSON has double quotes");
      }
      token = "\"" + plain.get<std::string>() + "\"";
      note({from, at_}, "a text in single quotes; JSON has double quotes", token);
    }
    json out = json::parse(token, nullptr, false);
    if (out.is_discarded()) {
      note({from, at_}, why_no_text(token));
      out = "";
    }
    return out;
  }

  json number() {
    const std::size_t from = at_;
    const std::string token(bare());
    json out = json::parse(token, nullptr, false);
    if (!out.is_discarded()) return out;
    const bool decimal = token.find_first_not_of("+0123456789") == std::string::npos;
    const auto first = std::min(token.find_first_not_of("+0"), token.size());
    note({from, at_}, cat(why_no_number(token), ": ", token),
         decimal && first < token.size() ? token.substr(first) : cat("\"", token, "\""));
    return token;
  }

  json word() {
    const std::size_t from = at_;
    const std::string token(bare());
    if (token == "true" || token == "false" || token == "null") return json::parse(token);
    const std::string small = lower(token);
    if (small == "true" || small == "false" || small == "null") {
      note({from, at_}, cat("an unknown word: ", token), small);
      return json::parse(small);
    }
    note({from, at_}, cat("a text without quotes: ", token), cat("\"", token, "\""));
    return token;
  }

  std::string key() {
    if (peek() == '"' || peek() == '\'') return text();
    if (!begins_bare(peek())) {
      stop({at_, at_ + 1}, cat("expected a key in double quotes, found ", here()));
    }
    const std::size_t from = at_;
    const std::string name(bare());
    note({from, at_}, cat("a key without quotes: ", name), cat("\"", name, "\""));
    return name;
  }

  void colon(const std::string& key, const Span& at) {
    blank();
    if (peek() == ':' && !at_end()) {
      ++at_;
      return;
    }
    const bool quote = key.find(':') != std::string::npos;
    stop(at, cat("expected ':' after the key \"", key, "\", found ", here(),
                 quote ? "; the closing quote of the key may be missing" : ""));
  }

  // Passes over a comma. Whether another member follows; else the closing bracket does.
  bool more(char close, std::size_t opener, bool first) {
    blank();
    const Span comma{at_, at_ + 1};
    const bool has_comma = !at_end() && peek() == ',';
    for (int i = 0; !at_end() && peek() == ','; ++i) {
      if (first || i > 0) note({at_, at_ + 1}, "a comma with nothing before it");
      ++at_;
      blank();
    }
    if (at_end()) {
      stop({opener, opener + 1},
           cat("the '", text_[opener], "' is never closed with '", close, "'"));
    }
    if (peek() == close) {
      if (has_comma && !first) note(comma, cat("a comma before the closing '", close, "'"));
      ++at_;
      return false;
    }
    if (peek() == '}' || peek() == ']') {
      stop({at_, at_ + 1}, cat("expected '", close, "' for the '", text_[opener], "' of ",
                               line_of(opener), ", found ", here()));
    }
    if (first || has_comma) return true;
    if (peek() != '"' && peek() != '\'' && peek() != '{' && peek() != '[' && !is_bare(peek())) {
      stop({at_, at_ + 1}, cat("expected ',' or '", close, "', found ", here()));
    }
    note({after_value_ - 1, after_value_}, "a comma is missing after this");
    return true;
  }

  void member(const std::string& path, json& out) {
    Span at{at_, at_};
    const std::string name = key();
    at.end = at_;
    colon(name, at);
    const std::string below =
        path.empty() || name.starts_with('[') ? path + name : path + "." + name;
    const auto& members = out.get_ref<const json::object_t&>();
    const auto same = std::ranges::find_if(
        members, [&](const auto& one) { return is_same_key(one.first, name); });
    if (same != members.end()) {
      const std::string other = same->first;
      const std::string first = below.substr(0, below.size() - name.size()) + other;
      const auto before =
          std::find_if(out_.places.rbegin(), out_.places.rend(),
                       [&first](const TextPlace& one) { return one.path == first; });
      note(at, cat("duplicate key, first ", other == name ? "" : cat("as '", other, "' "), "in ",
                   line_of(before->key.begin), "; the last value is used"));
      out.erase(other);
    }
    out[name] = value(below, at);
  }

  json object(const std::string& path) {
    const std::size_t opener = at_++;
    json out = json::object();
    for (bool first = true; more('}', opener, first); first = false) member(path, out);
    return out;
  }

  json list(const std::string& path) {
    const std::size_t opener = at_++;
    json out = json::array();
    for (bool first = true; more(']', opener, first); first = false) {
      out.push_back(value(cat(path, "[", out.size(), "]"), {}));
    }
    return out;
  }

  json value_at(const std::string& path) {
    const char c = peek();
    if (c == '{') return object(path);
    if (c == '[') return list(path);
    if (c == '"' || c == '\'') return text();
    if (!at_end() && begins_bare(c)) return word();
    if (!at_end() && is_bare(c)) return number();
    stop({at_, at_ + 1}, cat("expected a value, found ", here()));
  }

  json value(const std::string& path, const Span& key) {
    blank();
    if (++depth_ > kMaxNesting) {
      stop({at_, at_ + 1}, cat("nests more than ", kMaxNesting, " levels"));
    }
    const std::size_t place = out_.places.size();
    out_.places.push_back({path, key, {at_, at_}});
    json out = value_at(path);
    out_.places[place].value.end = after_value_ = at_;
    --depth_;
    return out;
  }

  void begin() {
    if (starts("\xFF\xFE") || starts("\xFE\xFF")) stop({0, 2}, "UTF-16; JSON files are UTF-8");
    if (starts(kMark)) {
      note({0, kMark.size()}, "a byte order mark, which runtimes reject; save the file without it");
      at_ = kMark.size();
    }
    blank();
    if (at_end()) stop({0, 0}, "the file is empty");
    // "---" or "name: net".
    const std::string_view line = text_.substr(at_, text_.find('\n', at_) - at_);
    if (starts("---") || (begins_bare(peek()) && line.find(": ") != line.npos)) {
      stop({at_, at_ + line.size()}, "this is YAML; networks are JSON");
    }
  }

  void document() {
    begin();
    out_.value = value("", {});
    blank();
    if (!at_end()) note({at_, at_ + 1}, cat("expected the end of the file, found ", here()));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t after_value_ = 0;  // where the newest value ended
  int depth_ = 0;
  JsonText out_;
};

}  // namespace

JsonText read_json_text(std::string_view text) { return JsonScanner(text).scan(); }

}  // namespace cni
