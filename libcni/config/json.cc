#include "libcni/config/json.h"

#include <nlohmann/json.hpp>

#include "libcni/common/error.h"

namespace cni {

namespace {

// Copying and printing JSON recurses as deep as it nests, so what nests deeper than any config does
// is refused before it is parsed (Go's encoding/json draws the line at 10000).
bool nests_too_deep(std::string_view json) {
  constexpr int kMost = 1000;
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMost) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

template <class Json>
Json try_parse(std::string_view text) {
  if (nests_too_deep(text)) return Json(Json::value_t::discarded);
  return Json::parse(text, nullptr, false);
}

}  // namespace

nlohmann::json parse_json(std::string_view text, std::string_view what) {
  if (nests_too_deep(text)) {
    throw Error(Code::kDecodingFailure, cat(what, " nests more than 1000 levels"));
  }
  try {
    return nlohmann::json::parse(text);
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
