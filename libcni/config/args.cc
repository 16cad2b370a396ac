#include "libcni/config/args.h"

#include <algorithm>

#include "libcni/common/error.h"
#include "libcni/config/nearest.h"

namespace cni {

namespace {

// The message is the reference plugins'; our own hint is in the details.
Error bad_args(std::string_view why, std::string_view expected) {
  return {Code::kInvalidEnvironment, cat("ARGS: ", why), cat("CNI_ARGS: ", expected)};
}

bool parse_bool(std::string_view text, std::string_view pair) {
  const std::string word = lower(text);
  if (word == "1" || word == "true") return true;
  if (word == "0" || word == "false") return false;
  throw bad_args(cat("error parsing value of pair \"", pair,
                     "\": boolean unmarshal error: invalid input ", text),
                 "expected 1, 0, true or false");
}

}  // namespace

std::string joined(const Args& args) {
  std::string out;
  for (const auto& [key, value] : args) out += cat(out.empty() ? "" : ";", key, "=", value);
  return out;
}

std::vector<std::string_view> parts_of_args(std::string_view text) {
  std::vector<std::string_view> out;
  for (bool more = !text.empty(); more;) {
    const auto end = text.find(';');
    out.push_back(text.substr(0, end));
    more = end != std::string_view::npos;
    if (more) text.remove_prefix(end + 1);
  }
  return out;
}

std::string_view value_in_args(std::string_view text, std::string_view key) {
  for (const std::string_view pair : parts_of_args(text)) {
    if (pair.starts_with(key) && pair.substr(key.size()).starts_with('=')) {
      return pair.substr(key.size() + 1);
    }
  }
  return {};
}

std::map<std::string, std::string, std::less<>> parse_args(std::string_view text, KeyList known) {
  std::map<std::string, std::string, std::less<>> out;
  std::string unknown;
  bool ignore_unknown = false;
  for (const std::string_view pair : parts_of_args(text)) {
    const auto equals = pair.find('=');
    if (equals == std::string_view::npos || pair.find('=', equals + 1) != std::string_view::npos) {
      throw bad_args(cat("invalid pair \"", pair, "\""), "expected KEY=VALUE");
    }
    const auto key = pair.substr(0, equals);
    const auto value = pair.substr(equals + 1);
    if (key == "IgnoreUnknown") {
      ignore_unknown = parse_bool(value, pair);
    } else if (std::ranges::any_of(known, [&](const Key& one) { return key == one.name; })) {
      out.insert_or_assign(std::string(key), std::string(value));
    } else {
      unknown += cat(unknown.empty() ? "" : " ", "\"", pair, "\"");
    }
  }
  if (!unknown.empty() && !ignore_unknown) {
    throw bad_args(cat("unknown args [", unknown, "]"), "IgnoreUnknown=1 passes them over");
  }
  return out;
}

}  // namespace cni
