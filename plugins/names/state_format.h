#pragma once

#include <string>
#include <vector>

namespace names {

/// The format of state files that this version writes and reads. A file of format 1 does not name
/// it. A later format is a number, `"format": 2`, in one of state_objects(): a member whose meaning
/// or absence an earlier version cannot know. Members that an earlier version may ignore need no
/// new format.
inline constexpr int kStateFormat = 1;

/// The objects of a state file that have the keys of an attachment: the document, or each of its
/// list, and in a file of which the reference plugin reads the rest the member "patchbay".
template <class Json>
std::vector<const Json*> state_objects(const Json& document) {
  std::vector<const Json*> out;
  const auto add = [&](const Json& one) {
    if (!one.is_object()) return;
    out.push_back(&one);
    const auto own = one.find("patchbay");
    if (own != one.end() && own->is_object()) out.push_back(&*own);
  };
  if (!document.is_array()) add(document);
  if (document.is_array()) {
    for (const auto& one : document) add(one);
  }
  return out;
}

/// The later format of a state file that a newer version wrote; empty: it is none.
template <class Json>
std::string later_format(const Json& document) {
  for (const Json* one : state_objects(document)) {
    const auto format = one->find("format");
    const bool is_later =
        format != one->end() && format->is_number_integer() && *format > kStateFormat;
    if (is_later) return format->dump();
  }
  return {};
}

}  // namespace names
