#include "cnitool/route_back.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "cnitool/doctor/finding.h"
#include "cnitool/output.h"
#include "netlink/types/error.h"
#include "netlink/types/fd.h"
#include "netlink/types/ip.h"

namespace tool {

namespace {

using doctor::quoted;
using netlink::Ip;
namespace fs = std::filesystem;

std::string content_of(const std::string& path) {
  try {
    return netlink::read_regular_file(path).value_or("");
  } catch (const netlink::Error&) {  // it says nothing
    return {};
  }
}

// "ROUTER=192.0.2.1 192.0.2.2" in systemd's files.
std::string value_in(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.starts_with(key)) return std::string(line.substr(key.size()));
  }
  return {};
}

std::optional<Ip> router_in(const std::string& text) {
  const auto ip = Ip::parse(std::string_view(text).substr(0, text.find_first_of(" ,;")));
  return ip && ip->is_v4() && !ip->is_unspecified() ? ip : std::nullopt;
}

// "expire 4 2026/11/30 01:02:03;" of dhclient.leases(5), in UTC; the day of the week is first.
bool has_run_out(std::string_view lease) {
  const auto at = lease.find("\n  expire ");
  if (at == std::string_view::npos) return false;
  const std::string_view text = lease.substr(at + 10);
  if (text.starts_with("never")) return false;
  constexpr std::size_t kSize = 19;
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  char buffer[kSize + 1] = {};
  if (::gmtime_r(&now, &utc) == nullptr ||
      std::strftime(buffer, sizeof buffer, "%Y/%m/%d %H:%M:%S", &utc) != kSize) {
    return true;
  }
  return text.substr(std::min<std::size_t>(2, text.size()), kSize) < std::string_view(buffer);
}

// The last lease of the link counts.
std::optional<Ip> router_of_dhclient(const std::string& text, const std::string& link) {
  std::optional<Ip> out;
  std::string_view rest = text;
  for (auto at = rest.find("lease {"); at != std::string_view::npos; at = rest.find("lease {")) {
    rest.remove_prefix(at + 7);
    const std::string_view lease = rest.substr(0, rest.find("\n}"));
    if (lease.find(cat("interface \"", link, "\";")) == std::string_view::npos) continue;
    const std::string_view kOption = "option routers ";
    const auto routers = lease.find(kOption);
    out = routers == std::string_view::npos || has_run_out(lease)
              ? std::nullopt
              : router_in(std::string(lease.substr(routers + kOption.size(), 64)));
  }
  return out;
}

std::optional<Ip> leased_router(const netlink::Link& link) {
  const std::string lease = content_of(cat("/run/systemd/netif/leases/", link.index));
  if (const auto router = router_in(value_in(lease, "ROUTER="))) return router;
  for (const char* const folder : {"/var/lib/dhcp", "/var/lib/dhclient"}) {
    std::error_code error;
    for (const auto& one : fs::directory_iterator(folder, error)) {
      if (one.path().extension() != ".leases" && one.path().extension() != ".lease") continue;
      if (const auto router = router_of_dhclient(content_of(one.path()), link.name)) return router;
    }
  }
  return std::nullopt;
}

bool is_of_ifupdown(const std::string& link) {
  std::error_code error;
  return fs::exists(cat("/run/network/ifstate.", link), error) ||
         !value_in(content_of("/run/network/ifstate"), cat(link, "=")).empty();
}

}  // namespace

std::string route_back(const netlink::Link& link) {
  const std::string name = quoted(link.name);
  const std::string state =
      value_in(content_of(cat("/run/systemd/netif/links/", link.index)), "ADMIN_STATE=");
  if (!state.empty() && state != "unmanaged") return cat("networkctl reconfigure ", name);
  const std::string device = content_of(cat("/run/NetworkManager/devices/", link.index));
  if (value_in(device, "managed=") == "true") return cat("nmcli device connect ", name);
  if (is_of_ifupdown(link.name)) return cat("ifdown --force ", name, "; ifup ", name);
  const auto router = leased_router(link);
  return router ? cat("ip route replace default via ", router->str(), " dev ", name)
                : std::string();
}

std::string up_with_route(const netlink::Link& link) {
  const std::string name = quoted(link.name);
  const std::string up = cat("ip link set ", name, " up");
  const std::string back = route_back(link);
  if (!back.empty()) return cat(up, " && ", back);
  return cat(up, "  # its default route went with it: restart what manages the link, or ",
             "ip route add default via GATEWAY dev ", name);
}

}  // namespace tool
