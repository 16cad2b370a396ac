#include "libcni/config/names.h"

#include <algorithm>

#include "libcni/common/error.h"

namespace cni {

namespace {

constexpr std::size_t kMaxIfname = 15;  // IFNAMSIZ - 1

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_name_char) && text[0] != '_' &&
         text[0] != '.' && text[0] != '-';
}

bool is_space_at(std::string_view text, std::size_t i) {
  const auto c = static_cast<unsigned char>(text[i]);
  if (c == ' ' || (c >= '\t' && c <= '\r')) return true;
  // The Unicode white space that Go's unicode.IsSpace knows, as UTF-8.
  constexpr std::string_view kSpaces[] = {
      "\xc2\x85",     "\xc2\xa0",     "\xe1\x9a\x80", "\xe2\x80\x80", "\xe2\x80\x81",
      "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85", "\xe2\x80\x86",
      "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a", "\xe2\x80\xa8",
      "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
  return std::ranges::any_of(
      kSpaces, [&](std::string_view space) { return text.substr(i, space.size()) == space; });
}

}  // namespace

void check_container_id(const std::string& id) {
  if (id.empty()) throw Error(Code::kUnknownContainer, "missing containerID");
  if (!is_name(id)) throw Error(Code::kInvalidEnvironment, "invalid characters in containerID", id);
}

bool is_network_name(const std::string& name) { return is_name(name); }

void check_network_name(const std::string& name) {
  if (name.empty()) throw Error(Code::kInvalidConfig, "missing network name");
  if (!is_name(name)) {
    throw Error(Code::kInvalidConfig, "invalid characters found in network name", name);
  }
}

bool is_link_name(std::string_view name) {
  constexpr std::string_view kForbidden("/:% \t\n\v\f\r\0", 10);
  return !name.empty() && name.size() <= kMaxIfname && name != "." && name != ".." &&
         name.find_first_of(kForbidden) == std::string_view::npos;
}

void check_ifname(const std::string& name) {
  if (name.empty()) throw Error(Code::kInvalidEnvironment, "interface name is empty");
  if (name.size() > kMaxIfname) {
    throw Error(Code::kInvalidEnvironment, "interface name is too long",
                "interface name should be less than 16 characters");
  }
  if (name == "." || name == "..") {
    throw Error(Code::kInvalidEnvironment, "interface name is . or ..");
  }
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '/' || name[i] == ':' || is_space_at(name, i)) {
      throw Error(Code::kInvalidEnvironment,
                  "interface name contains / or : or whitespace characters", name);
    }
  }
  if (!is_link_name(name)) {
    throw Error(Code::kInvalidEnvironment, "interface name contains %", name);
  }
}

bool stands_for(std::string_view type, std::string_view plugin) noexcept {
  const std::string_view stem = type.substr(0, type.find('.'));
  if (!stem.ends_with(plugin)) return false;
  return stem.size() == plugin.size() || stem[stem.size() - plugin.size() - 1] == '-';
}

std::string pod_name(std::string_view of_namespace, std::string_view name) {
  if (name.empty() || of_namespace.empty()) return std::string(name);
  return cat(of_namespace, "/", name);
}

}  // namespace cni
