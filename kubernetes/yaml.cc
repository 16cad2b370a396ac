#include "kubernetes/yaml.h"

#include <yaml.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>

#include "libcni/common/error.h"
#include "libcni/common/printable.h"

namespace kubernetes {

namespace {

using cni::cat;

struct Delete {
  void operator()(yaml_event_t* event) const noexcept {
    yaml_event_delete(event);
    delete event;
  }
};
using Event = std::unique_ptr<yaml_event_t, Delete>;

std::string_view text_at(const yaml_char_t* start, std::size_t length) {
  return {reinterpret_cast<const char*>(start), length};
}

template <class Number>
std::optional<Json> number_in(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  Number out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return Json(out);
}

// 0x1f, 0o17 and, as Kubernetes reads the modes of files, 017. Empty: another text.
std::optional<Json> number_with_base(std::string_view text) {
  if (text.size() < 2 || text[0] != '0') return std::nullopt;
  const bool is_hex = text[1] == 'x';
  const std::string_view digits = text.substr(is_hex || text[1] == 'o' ? 2 : 1);
  std::int64_t out = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), out, is_hex ? 16 : 8);
  const bool is_whole = error == std::errc{} && end == digits.data() + digits.size();
  return is_whole && digits[0] != '-' ? std::optional<Json>(out) : std::nullopt;
}

// What is written without quotes.
Json plain(std::string_view text) {
  constexpr std::string_view kNulls[] = {"", "~", "null", "Null", "NULL"};
  constexpr std::string_view kTrue[] = {"true", "True", "TRUE"};
  constexpr std::string_view kFalse[] = {"false", "False", "FALSE"};
  if (std::ranges::find(kNulls, text) != std::end(kNulls)) return nullptr;
  if (std::ranges::find(kTrue, text) != std::end(kTrue)) return true;
  if (std::ranges::find(kFalse, text) != std::end(kFalse)) return false;
  if (auto number = number_with_base(text)) return *number;
  // Not "inf" and "nan", which JSON does not have.
  const bool is_number = text.find_first_not_of("+-.0123456789eE") == text.npos &&
                         text.find_first_of("0123456789") != text.npos;
  if (!is_number) return std::string(text);
  if (auto number = number_in<std::int64_t>(text)) return *number;
  if (auto number = number_in<double>(text)) return *number;
  return std::string(text);
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view what) : what_(what) {
    if (text.size() > kMaxYaml) refuse(cat("more than ", kMaxYaml, " bytes"));
    if (yaml_parser_initialize(&parser_) == 0) throw std::bad_alloc();
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()),
                                 text.size());
  }
  ~Reader() { yaml_parser_delete(&parser_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  Json document() {
    next();  // the start of the stream
    Event event = next();
    if (event->type == YAML_STREAM_END_EVENT) return nullptr;
    Json out = value(next(), 0);
    next();  // the end of the document
    if (next()->type != YAML_STREAM_END_EVENT) refuse("more than one document");
    return out;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw cni::Error(cni::Code::kDecodingFailure,
                     cat("read ", what_, ": line ", line_ + 1, ": ", why));
  }

  Event next() {
    auto event = std::make_unique<yaml_event_t>();
    const bool is_event = yaml_parser_parse(&parser_, event.get()) != 0;
    line_ = is_event ? event->start_mark.line : parser_.problem_mark.line;
    if (!is_event) {
      refuse(parser_.problem != nullptr ? parser_.problem : "not YAML");
    }
    return Event(event.release());
  }

  // One of kind, without what would give it another meaning.
  void require_simple(const yaml_char_t* anchor, const yaml_char_t* tag) const {
    if (anchor != nullptr) refuse("anchors are not supported");
    if (tag != nullptr) refuse("tags are not supported");
  }

  Json value(const Event& event, int depth) {
    if (depth > kMaxYamlDepth) refuse(cat("nests more than ", kMaxYamlDepth, " levels"));
    if (++nodes_ > kMaxYamlNodes) refuse(cat("more than ", kMaxYamlNodes, " values"));
    switch (event->type) {
      case YAML_SCALAR_EVENT:
        return scalar(*event);
      case YAML_SEQUENCE_START_EVENT:
        require_simple(event->data.sequence_start.anchor, event->data.sequence_start.tag);
        return list(depth);
      case YAML_MAPPING_START_EVENT:
        require_simple(event->data.mapping_start.anchor, event->data.mapping_start.tag);
        return object(depth);
      default:
        refuse("aliases are not supported");
    }
  }

  Json scalar(const yaml_event_t& event) const {
    const auto& data = event.data.scalar;
    const std::string_view text = text_at(data.value, data.length);
    require_simple(data.anchor,
                   data.plain_implicit == 0 && data.quoted_implicit == 0 ? data.tag : nullptr);
    return data.style == YAML_PLAIN_SCALAR_STYLE ? plain(text) : Json(std::string(text));
  }

  Json list(int depth) {
    Json out = Json::array();
    for (Event event = next(); event->type != YAML_SEQUENCE_END_EVENT; event = next()) {
      out.push_back(value(event, depth + 1));
    }
    return out;
  }

  Json object(int depth) {
    Json out = Json::object();
    for (Event event = next(); event->type != YAML_MAPPING_END_EVENT; event = next()) {
      if (event->type != YAML_SCALAR_EVENT) refuse("a key is not a string");
      require_simple(event->data.scalar.anchor, nullptr);
      const std::string key(text_at(event->data.scalar.value, event->data.scalar.length));
      if (out.contains(key)) refuse(cat("key '", cni::printable_text(key), "' comes twice"));
      out[key] = value(next(), depth + 1);
    }
    return out;
  }

  std::string what_;
  yaml_parser_t parser_{};
  std::size_t nodes_ = 0, line_ = 0;
};

}  // namespace

Json parse_yaml(std::string_view text, std::string_view what) {
  return Reader(text, what).document();
}

}  // namespace kubernetes
