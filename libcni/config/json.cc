#include "libcni/config/json.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "libcni/common/error.h"
#include "libcni/config/nearest.h"

namespace cni {

namespace {

// Copying and printing JSON recurses as deep as it nests, so what nests deeper than any config does
// is refused before it is parsed (Go's encoding/json draws the line at 10000).
bool nests_too_deep(std::string_view text) {
  constexpr int kMax = 1000;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMax) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

// The parser passes over it; Go's encoding/json refuses it, and with it every runtime.
bool has_mark(std::string_view text) { return text.starts_with("\xef\xbb\xbf"); }

// Names of sysctls have dots or slashes, and may differ by case; other keys do not.
bool is_sysctl(const std::string& key) { return key.find_first_of("./") != std::string::npos; }

// Whether keys differ by case alone.
bool has_spellings(const nlohmann::json::object_t& object) {
  std::vector<std::string> keys;
  keys.reserve(object.size());
  for (const auto& [key, value] : object) {
    if (!is_sysctl(key)) keys.push_back(lower(key));
  }
  std::ranges::sort(keys);
  return std::ranges::adjacent_find(keys) != keys.end();
}

bool has_spellings(const nlohmann::json& value) {
  const auto* const object = value.get_ptr<const nlohmann::json::object_t*>();
  if (object != nullptr && has_spellings(*object)) return true;
  return value.is_structured() &&
         std::ranges::any_of(value, [](const auto& one) { return has_spellings(one); });
}

// Drops keys that come again later in another case.
nlohmann::json parse_last_spellings(std::string_view text) {
  std::vector<std::vector<std::string>> keys;  // of the objects around, as the text has them
  using Event = nlohmann::json::parse_event_t;
  return nlohmann::json::parse(text, [&](int, Event event, nlohmann::json& parsed) {
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::key) keys.back().push_back(parsed.get<std::string>());
    if (event != Event::object_end) return true;
    std::map<std::string, std::string> last;
    for (const std::string& key : keys.back()) last.insert_or_assign(lower(key), key);
    for (const std::string& key : keys.back()) {
      if (!is_sysctl(key) && last.at(lower(key)) != key) parsed.erase(key);
    }
    keys.pop_back();
    return true;
  });
}

template <class Json>
Json try_parse(std::string_view text) {
  if (nests_too_deep(text) || has_mark(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

}  // namespace

bool is_same_key(const std::string& a, const std::string& b) {
  return a == b || (!is_sysctl(a) && same_but_for_case(a, b));
}

nlohmann::json parse_json(std::string_view text, std::string_view what) {
  if (nests_too_deep(text)) {
    throw Error(Code::kDecodingFailure, cat(what, " nests more than 1000 levels"));
  }
  if (has_mark(text)) {
    throw Error(Code::kDecodingFailure, cat(what, " is not JSON: it begins with a byte order mark"),
                "save it as UTF-8 without BOM");
  }
  try {
    auto out = nlohmann::json::parse(text);
    return has_spellings(out) ? parse_last_spellings(text) : out;
  } catch (const nlohmann::json::exception& e) {  // parse_error; out_of_range: a number of any size
    const std::string_view why = e.what();  // "[json.exception...] parse error at line 1, ..."
    const auto close = why.find("] ");
    throw Error(
        Code::kDecodingFailure,
        cat(what, " is not JSON: ", close == std::string_view::npos ? why : why.substr(close + 2)));
  }
}

nlohmann::json try_parse_json(std::string_view text) { return try_parse<nlohmann::json>(text); }

nlohmann::ordered_json try_parse_ordered_json(std::string_view text) {
  return try_parse<nlohmann::ordered_json>(text);
}

}  // namespace cni
