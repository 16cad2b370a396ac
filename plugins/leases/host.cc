#include "plugins/leases/host.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "libcni/common/error.h"
#include "libcni/common/hash.h"
#include "libcni/config/json.h"
#include "netlink/types/fd.h"
#include "plugins/state/lease.h"

namespace leases {

using cni::cat;

namespace {

std::string read_boot_id() {
  const auto text = netlink::read_file("/proc/sys/kernel/random/boot_id").value_or("");
  const std::string_view id = trimmed(text);
  // It becomes the name of a directory.
  const bool is_id =
      !id.empty() && id.find_first_not_of("0123456789abcdef-") == std::string_view::npos;
  return std::string(is_id ? id : kUnknownBoot);
}

}  // namespace

Host Host::current(std::string_view plugin) try {
  return {.boot_id = read_boot_id(), .plugin = plugin};
} catch (const netlink::Error&) {
  // Nothing is taken for older than the boot.
  return {.boot_id = std::string(kUnknownBoot), .plugin = plugin};
}

Host Host::known(std::string_view plugin) {
  Host host{.boot_id = read_boot_id(), .plugin = plugin};
  netlink::read_file(host.machine_file);
  return host;
}

std::optional<std::time_t> Host::boot_time() const try {
  constexpr std::string_view kKey = "\nbtime ";
  const std::string text = cat("\n", netlink::read_file(stat_file).value_or(""));
  const auto at = text.find(kKey);
  std::time_t seconds = 0;
  if (at == std::string::npos) return std::nullopt;
  const char* const begin = text.data() + at + kKey.size();
  const auto parsed = std::from_chars(begin, text.data() + text.size(), seconds);
  return parsed.ec == std::errc() ? std::optional(seconds) : std::nullopt;
} catch (const netlink::Error&) {
  return std::nullopt;
}

std::optional<std::string> Host::cached_netns(const std::string& name) const try {
  const auto text = netlink::read_regular_file(cat(cache_dir, "/", name));
  const auto doc = text ? cni::try_parse_json(*text) : nlohmann::json();
  if (!doc.is_object()) return std::nullopt;
  const auto netns = doc.find("netns");
  if (netns == doc.end() || !netns->is_string()) return std::nullopt;
  return netns->get<std::string>();
} catch (const netlink::Error&) {
  return std::nullopt;
}

std::string Host::machine() const try {
  constexpr std::size_t kIdLength = 32;
  constexpr std::size_t kEnough = 16;
  const auto text = netlink::read_file(machine_file).value_or("");
  const std::string_view id = trimmed(text);
  // An image that has not booted yet has "uninitialized", or nothing: machine-id(5).
  const bool is_id =
      id.size() == kIdLength && id.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  return is_id ? cni::sha512_hex(cat("patchbay ", id), kEnough) : std::string(kUnknownMachine);
} catch (const netlink::Error&) {
  return std::string(kUnknownMachine);
}

}  // namespace leases
