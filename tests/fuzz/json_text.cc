// JSON as people write it: cni::read_json_text(), which validate reads networks with.
#include "cnitool/validate/json_text.h"

#include <nlohmann/json.hpp>

#include "libcni/config/json.h"
#include "tests/fuzz/fuzz.h"

namespace {

using cni::JsonText;
using cni::Span;
using fuzz::require;

bool lies_in(const Span& span, std::string_view text) {
  return span.begin <= span.end && span.end <= text.size();
}

void check_places(const JsonText& json, std::string_view text) {
  require(!json.places.empty(), "a document has a place");
  for (const cni::TextPlace& one : json.places) {
    require(lies_in(one.key, text) && lies_in(one.value, text), "a place lies in the text");
    require(json.find(one.path) != nullptr, "a place is found by its path");
  }
  for (const cni::TextMistake& one : json.mistakes) {
    require(lies_in(one.at, text), "a mistake lies in the text");
    require(!one.what.empty(), "a mistake says what it is");
    const cni::TextPosition at = cni::position_in(text, one.at.begin);
    require(at.line > 0 && at.column > 0, "positions begin with 1");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  JsonText json = cni::read_json_text(text);
  check_places(json, text);
  require(json.readable || !json.mistakes.empty(), "what cannot be read has a mistake");
  nlohmann::json strict;
  const bool is_json = fuzz::accepts([&] { strict = cni::parse_json(text, "it"); });
  if (json.mistakes.empty())
    require(is_json && strict == *json.value, "without mistakes it is JSON");
  if (is_json) require(json.readable && strict == *json.value, "JSON is read as JSON");
  if (!json.readable) return 0;
  if (json.value->is_object() && json.value->size() < 8) {
    const nlohmann::json before = json.value;
    for (const auto& [key, value] : before.items()) json.respell(key, key + "x");
    require(json.value->size() == before.size(), "respelling loses no key");
  }
  return 0;
}
