#include "plugins/host-local/conf.h"

#include <algorithm>

#include "libcni/args.h"

namespace host_local {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;
using cni::Reader;

Range range_from(const Reader& place) {
  std::optional<Cidr> subnet;
  std::optional<Ip> start, end, gateway;
  place.into("subnet", subnet);
  place.into("rangeStart", start);
  place.into("rangeEnd", end);
  place.into("gateway", gateway);
  if (!subnet) place["subnet"].fail("expected the subnet of the range, as 10.1.2.0/24");
  if (subnet->ip.is_v4() && place["subnet"].as_string().find(':') != std::string::npos) {
    place["subnet"].fail("IPNet IP and Mask version mismatch");
  }
  try {
    return Range::make(*subnet, start, end, gateway);
  } catch (const Error& e) {
    throw Error(e.code(), cat(e.what(), " (", place.path().empty() ? "config" : place.path(), ")"));
  }
}

class SetReader {
 public:
  // Numbered in the order of the result, as in the names last_reserved_ip.N.
  template <class Ranges>
  void add(const Ranges& places) {
    const auto read = [&places] {
      RangeSet set;
      for (const Reader& place : places) set.ranges.push_back(range_from(place));
      check(set);
      return set;
    };
    sets_.push_back(cni::during(cat("invalid range set ", sets_.size()), read));
  }
  void add_all(const Reader& list) {
    for (const Reader& set : list.elements()) add(set.elements());
  }
  std::vector<RangeSet> take() { return std::move(sets_); }

 private:
  std::vector<RangeSet> sets_;
};

std::vector<RangeSet> sets_from(const Reader& root) {
  const Reader ipam = root["ipam"];
  SetReader sets;
  sets.add_all(root["runtimeConfig"]["ipRanges"]);
  if (ipam["subnet"].present() && !ipam["subnet"].as_string().empty()) {
    sets.add(std::vector<Reader>{ipam});
  }
  sets.add_all(ipam["ranges"]);
  return sets.take();
}

void check_together(const std::vector<RangeSet>& sets, cni::Version version) {
  if (sets.empty()) throw Error(Code::kInvalidConfig, "no IP ranges specified (ipam.ranges)");
  const auto v4 = std::count_if(sets.begin(), sets.end(),
                                [](const RangeSet& set) { return set.ranges[0].start.is_v4(); });
  const auto v6 = static_cast<std::ptrdiff_t>(sets.size()) - v4;
  if ((v4 > 1 || v6 > 1) && version < cni::Version::k0_3_0) {
    throw Error(Code::kInvalidConfig, cat("CNI version ", cni::str(version),
                                          " does not support more than 1 address per family"));
  }
  for (std::size_t i = 0; i < sets.size(); ++i) {
    for (std::size_t k = i + 1; k < sets.size(); ++k) {
      if (!sets[i].overlaps(sets[k])) continue;
      throw Error(Code::kInvalidConfig, cat("range set ", i, " overlaps with ", k),
                  cat(sets[i].str(), " and ", sets[k].str()));
    }
  }
}

// The prefix length that a requested address may carry says nothing: the subnet's is used.
std::optional<Ip> ip_in(const std::string& text) {
  if (text.find('/') == std::string::npos) return Ip::parse(text);
  const auto cidr = Cidr::parse(text);
  return cidr ? std::optional<Ip>(cidr->ip) : std::nullopt;
}

std::vector<Ip> requested_from(const cni::Request& request, const Reader& root) {
  std::vector<Ip> out;
  const auto keep = [&out](const Ip& ip) {
    if (std::find(out.begin(), out.end(), ip) == out.end()) out.push_back(ip);
  };
  const auto args = cni::parse_args(request.args, {"IP"});
  if (const auto it = args.find("IP"); it != args.end() && !it->second.empty()) {
    const auto ip = ip_in(it->second);
    if (!ip) {
      throw Error(Code::kInvalidEnvironment,
                  cat("CNI_ARGS: IP: not an IP address: \"", it->second, "\""));
    }
    keep(*ip);
  }
  for (const Reader& list : {root["args"]["cni"]["ips"], root["runtimeConfig"]["ips"]}) {
    for (const Reader& place : list.elements()) {
      const auto ip = ip_in(place.as_string());
      if (!ip) place.fail("not an IP address");
      keep(*ip);
    }
  }
  return out;
}

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kBlank = " \t\r\v\f";
  std::vector<std::string_view> out;
  for (;;) {
    line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
    if (line.empty()) return out;
    const auto end = std::min(line.find_first_of(kBlank), line.size());
    out.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

}  // namespace

std::string data_dir_from(const cni::Request& request) {
  std::string dir;
  const Reader root = request.reader();  // outlives the places below it
  root["ipam"].into("dataDir", dir);
  return dir.empty() ? std::string(kDefaultDataDir) : dir;
}

Conf Conf::parse(const cni::Request& request) {
  const Reader root = request.reader();
  const Reader ipam = root["ipam"];
  if (!ipam.present()) throw Error(Code::kInvalidConfig, "IPAM config missing 'ipam' key");
  Conf conf;
  conf.data_dir = data_dir_from(request);
  conf.requested = requested_from(request, root);
  conf.sets = sets_from(root);
  check_together(conf.sets, request.version);
  conf.routes = cni::routes_from(ipam["routes"]);
  ipam.into("resolvConf", conf.resolv_conf);
  return conf;
}

cni::Dns parse_resolv_conf(std::string_view text) {
  cni::Dns dns;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto words = words_of(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.size() < 2 || words[0][0] == '#' || words[0][0] == ';') continue;
    if (words[0] == "nameserver") dns.nameservers.emplace_back(words[1]);
    if (words[0] == "domain") dns.domain = words[1];
    if (words[0] == "search") dns.search.insert(dns.search.end(), words.begin() + 1, words.end());
    if (words[0] == "options")
      dns.options.insert(dns.options.end(), words.begin() + 1, words.end());
  }
  return dns;
}

}  // namespace host_local
