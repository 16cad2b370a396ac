#include "plugins/state/lease.h"

#include <algorithm>

#include "libcni/common/error.h"

namespace leases {

namespace {

using cni::cat;
using netlink::Ip;

bool is_id_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '-';
}

bool is_id(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_id_char); }

bool is_ifname(std::string_view text) {
  constexpr std::size_t kMaxIfname = 15;
  return !text.empty() && text.size() <= kMaxIfname && std::ranges::all_of(text, [](char c) {
    return static_cast<unsigned char>(c) > ' ' && c != '/' && c != ':' && c != '\x7f';
  });
}

}  // namespace

std::string record_of(const Owner& owner) {
  return owner.ifname.empty() ? owner.container_id : cat(owner.container_id, "\r\n", owner.ifname);
}

Owner lines_of(std::string_view content) {
  const std::string_view text = trimmed(content);
  const auto end = text.find("\r\n");
  const auto rest = end == text.npos ? std::string_view() : text.substr(end + 2);
  return {std::string(text.substr(0, end)), std::string(rest)};
}

std::optional<Owner> owner_in(std::string_view content) {
  auto out = owner_named_in(content);
  const bool is_bare = trimmed(content).find("\r\n") == content.npos;
  // "ID" + CR is what a torn write leaves; a bare ID of old has no CR.
  const bool is_whole =
      is_bare ? content.find('\r') == content.npos : out && is_ifname(out->ifname);
  return is_whole ? out : std::nullopt;
}

std::optional<Owner> owner_named_in(std::string_view content) {
  Owner out = lines_of(content);
  return is_id(out.container_id) ? std::optional(std::move(out)) : std::nullopt;
}

bool is_surely_a_lease(const Owner& owner) {
  constexpr std::size_t kMinId = 32;
  const std::string& id = owner.container_id;
  return !owner.ifname.empty() ||
         (id.size() >= kMinId && id.find_first_not_of("0123456789abcdef-") == std::string::npos);
}

std::string str(const Owner& owner) {
  const auto& [id, ifname] = owner;
  return ifname.empty() ? cat("'", id, "'") : cat("'", id, "' '", ifname, "'");
}

std::optional<Ip> ip_of(const std::string& file_name) {
  const auto ip = Ip::parse(file_name);
  return ip && ip->str() == file_name ? ip : std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  const auto begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

}  // namespace leases
