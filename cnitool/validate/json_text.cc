#include "cnitool/validate/json_text.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/config/nearest.h"

namespace cni {

namespace {

// The path of what is around: "a.b[0]" of "a.b[0].c", "a.b" of "a.b[0]".
std::string_view around(std::string_view path) {
  const auto end = path.find_last_of(".[");
  return end == std::string_view::npos ? "" : path.substr(0, end);
}

bool is_below(std::string_view path, std::string_view top) {
  return path.size() >= top.size() && cni::same_but_for_case(path.substr(0, top.size()), top) &&
         (path.size() == top.size() || path[top.size()] == '.' || path[top.size()] == '[');
}

nlohmann::json* value_at(nlohmann::json& from, std::string_view path) {
  if (path.empty()) return &from;
  if (from.is_array() && path[0] == '[') {
    std::size_t index = 0;
    const char* const end = path.data() + path.size();
    const auto [rest, error] = std::from_chars(path.data() + 1, end, index);
    if (error != std::errc() || rest == end || *rest != ']' || index >= from.size()) return nullptr;
    return value_at(from[index], path.substr(static_cast<std::size_t>(rest - path.data()) + 1));
  }
  if (!from.is_object()) return nullptr;
  if (path[0] == '.') path.remove_prefix(1);
  for (auto it = from.begin(); it != from.end(); ++it) {  // a key may have dots and brackets in it
    if (!is_below(path, it.key())) continue;
    if (auto* const found = value_at(*it, path.substr(it.key().size()))) return found;
  }
  return nullptr;
}

}  // namespace

nlohmann::json* JsonText::at(std::string_view path) { return value_at(*value, path); }

bool JsonText::respell(const std::string& path, const std::string& key) {
  const TextPlace* const place = find(path);
  const std::string above(around(path));
  nlohmann::json* const object = at(above);
  if (place == nullptr || object == nullptr || !object->is_object()) return false;
  const std::string old = path.substr(above.empty() ? 0 : above.size() + 1);
  for (const auto& [name, ignored] : object->items()) {
    if (cni::same_but_for_case(name, key)) return false;
  }
  const auto member = object->find(old);
  if (member == object->end()) return false;
  nlohmann::json moved = std::move(*member);
  object->erase(member);
  (*object)[key] = std::move(moved);
  const std::string renamed = above.empty() ? key : cat(above, ".", key);
  for (TextPlace& one : places) {
    if (is_below(one.path, path)) one.path = renamed + one.path.substr(path.size());
  }
  return true;
}

const TextPlace* JsonText::find(std::string_view path) const {
  const auto exact = std::find_if(places.rbegin(), places.rend(),
                                  [path](const TextPlace& one) { return one.path == path; });
  if (exact != places.rend()) return &*exact;
  const std::string folded = lower(path);
  const auto same = std::find_if(places.rbegin(), places.rend(), [&folded](const TextPlace& one) {
    return lower(one.path) == folded;
  });
  return same == places.rend() ? nullptr : &*same;
}

const TextPlace& JsonText::nearest(std::string_view path) const {
  for (;;) {
    const TextPlace* const place = find(path);
    if (place != nullptr || path.empty()) return place != nullptr ? *place : places.front();
    path = around(path);
  }
}

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

TextPosition position_in(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  TextPosition out;
  out.line += static_cast<std::size_t>(std::ranges::count(before, '\n'));
  out.column += characters(before.substr(before.rfind('\n') + 1));
  return out;
}

}  // namespace cni
