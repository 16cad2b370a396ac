#include "plugins/devices/agent/dra/names.h"

#include "libcni/common/error.h"
#include "libcni/common/hash.h"

namespace devices::dra {

namespace {

constexpr std::size_t kMost = 63;  // characters of a DNS label
constexpr std::size_t kHash = 8;

bool is_kept(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; }

}  // namespace

std::string device_name(std::string_view id) {
  std::string out;
  bool is_lost = false;
  for (const char c : id) {
    const bool is_upper = c >= 'A' && c <= 'Z';
    const char lower = is_upper ? static_cast<char>(c - 'A' + 'a') : c;
    is_lost |= is_upper || !(is_kept(lower) || c == ':' || c == '.');
    out += is_kept(lower) ? lower : '-';
  }
  const auto begin = out.find_first_not_of('-');
  const auto trimmed =
      begin == out.npos ? "" : out.substr(begin, out.find_last_not_of('-') + 1 - begin);
  if (!is_lost && trimmed == out && !out.empty() && out.size() <= kMost) return out;
  const std::string hash = cni::sha512_hex(id, kHash);
  const std::string shown = trimmed.substr(0, kMost - kHash - 1);
  return shown.empty() ? hash : cni::cat(shown, "-", hash);
}

std::string shared_id(std::string_view parent, std::string_view type) {
  return cni::cat(parent, parent.empty() ? "" : ":", type);
}

}  // namespace devices::dra
