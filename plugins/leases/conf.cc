#include "plugins/leases/conf.h"

#include <algorithm>

#include "libcni/common/error.h"
#include "libcni/common/split.h"
#include "libcni/config/args.h"
#include "libcni/config/common_keys.h"
#include "netlink/types/fd.h"
#include "plugins/names/state.h"

namespace leases {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;
using cni::Reader;

// The prefix length of a requested address is ignored: the result has the subnet's.
std::optional<Ip> ip_in(const std::string& text) {
  if (text.find('/') == std::string::npos) return Ip::parse(text);
  const auto cidr = Cidr::parse(text);
  return cidr ? std::optional<Ip>(cidr->ip) : std::nullopt;
}

void request_ip(const Ip& ip, Conf& conf) {
  auto& list = conf.requested;
  if (std::ranges::find(list, ip) == list.end()) list.push_back(ip);
}

}  // namespace

void read_request_args(const std::string& text, Conf& conf) {
  for (const auto& [name, value] : cni::parse_args(text, kRequestArgs)) {
    if (value.empty()) continue;
    const auto ip = ip_in(value);
    if (!ip) {
      throw Error(Code::kInvalidEnvironment,
                  cat("ARGS: error parsing value of pair \"", name, "=", value,
                      "\": invalid IP address ", value),
                  cat("CNI_ARGS: ", name));
    }
    request_ip(*ip, conf);
  }
}

void read_requested(const Reader& list, Conf& conf) {
  for (const Reader& place : list.elements()) {
    const auto ip = ip_in(place.as_string());
    if (!ip) place.fail("not an IP address");
    request_ip(*ip, conf);
  }
}

Range WrittenRange::whole(const Reader& place) const {
  try {
    return Range::make(subnet.value(), start, end, gateway);
  } catch (const Error& e) {  // whose details begin with the key
    throw Error(e.code(), e.what(), cat(place.path(), ".", e.details()));
  }
}

void require_ipam(const Reader& root) {
  const Reader ipam = root["ipam"];
  if (!ipam.present()) ipam.refuse("IPAM config missing 'ipam' key");
}

void require_ranges(const Conf& conf) {
  if (!conf.sets.empty()) return;
  throw Error(Code::kInvalidConfig, "no IP ranges specified",
              "ipam.ranges: expected a range, here or in ipam.subnet");
}

void check_together(const std::vector<RangeSet>& sets, cni::Version version) {
  const auto v4 =
      std::ranges::count_if(sets, [](const RangeSet& set) { return set.ranges[0].start.is_v4(); });
  cni::require_version_of(version, v4, static_cast<std::ptrdiff_t>(sets.size()) - v4);
  for (std::size_t i = 0; i < sets.size(); ++i) {
    for (std::size_t k = i + 1; k < sets.size(); ++k) {
      if (!sets[i].overlaps(sets[k])) continue;
      throw Error(Code::kInvalidConfig, cat("range set ", i, " overlaps with ", k),
                  cat(sets[i].str(), " and ", sets[k].str()));
    }
  }
}

std::string data_dir_from(const cni::Request& request) {
  std::string dir;
  const Reader root = request.reader();  // outlives the places below it
  root["ipam"].into("dataDir", dir);
  return dir.empty() ? std::string(names::kHostLocalDataDir) : dir;
}

cni::Dns parse_resolv_conf(std::string_view text) {
  cni::Dns dns;
  for (const auto line : cni::split(text, "\n")) {
    const auto words = cni::split(line, " \t\r\v\f");
    if (words.size() < 2 || words[0][0] == '#' || words[0][0] == ';') continue;
    if (words[0] == "nameserver") dns.nameservers.emplace_back(words[1]);
    if (words[0] == "domain") dns.domain = words[1];
    if (words[0] == "search") dns.search.insert(dns.search.end(), words.begin() + 1, words.end());
    if (words[0] == "options")
      dns.options.insert(dns.options.end(), words.begin() + 1, words.end());
  }
  return dns;
}

cni::Dns read_resolv_conf(const std::string& path) {
  if (path.empty()) return {};
  const auto text = netlink::read_regular_file(path);
  if (!text)
    throw Error(Code::kInvalidConfig, cat("open ", path, ": no such file or directory"),
                cat("ipam.resolvConf: \"", path, "\""));
  return parse_resolv_conf(*text);
}

}  // namespace leases
