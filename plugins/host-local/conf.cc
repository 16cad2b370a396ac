#include "plugins/host-local/conf.h"

#include <algorithm>

#include "libcni/common/split.h"
#include "libcni/config/args.h"
#include "libcni/config/common_keys.h"
#include "libcni/config/pod_cidr.h"
#include "plugins/host-local/facts.h"
#include "plugins/names/state.h"

namespace host_local {

namespace {

using cni::cat;
using cni::Code;
using cni::Error;
using cni::Reader;
using cni::Type;

// A range before its defaults are applied.
struct Written {
  std::optional<Cidr> subnet;
  std::optional<netlink::Family> pod_cidr;  // in place of the subnet
  std::optional<Ip> start, end, gateway;
};

void read_subnet(const Reader& place, Written& range) {
  if (!place.present() || place.as_string().empty()) {
    place.refuse("IP <nil> not v4 nor v6",
                 "expected the subnet of the range, for example 10.1.2.0/24");
  }
  range.pod_cidr = cni::pod_cidr_family(place.as_string());
  if (range.pod_cidr) return;
  range.subnet = place.as_cidr();
  if (range.subnet->ip.is_v4() && place.as_string().find(':') != std::string::npos) {
    place.fail("IPNet IP and Mask version mismatch");
  }
}

constexpr auto kRangeKeys = cni::keys(
    cni::custom<read_subnet>(
        {.name = "subnet",
         .description = "network address with prefix length; at least four addresses. "
                        "`usePodCidr` and `usePodCidrIPv6` are those in `ipam.podCidrFile`",
         .type = Type::kCidr,
         .enumeration = cni::kPodCidrWords,
         .required = true}),
    cni::key<&Written::start>({.name = "rangeStart",
                               .description = "first address to allocate, inclusive",
                               .default_text = "network + 1"}),
    cni::key<&Written::end>({.name = "rangeEnd",
                             .description = "last address to allocate, inclusive",
                             .default_text = "IPv4: broadcast - 1; IPv6: last of the subnet"}),
    cni::key<&Written::gateway>({.name = "gateway",
                                 .description = "returned with the address, never allocated from "
                                                "this range; may lie outside the subnet",
                                 .default_text = "network + 1"}));

// Empty: not to be read.
std::optional<Cidr> pod_cidr_at(const Reader& place, netlink::Family family, Conf& conf) {
  if (conf.pod_cidr_file.empty()) {
    place.fail("requires ipam.podCidrFile, which names the file with the pod CIDRs of this node");
  }
  conf.lacks_ranges = conf.pod_cidrs == PodCidrs::kSkip;
  if (conf.lacks_ranges) return std::nullopt;
  return cni::during(place.path(), [&] { return cni::pod_cidr_in(conf.pod_cidr_file, family); });
}

// Empty: a pod CIDR that is not to be read.
std::optional<Range> range_from(const Reader& place, Conf& conf) {
  Written range;
  cni::read_keys(place, kRangeKeys, range);
  if (range.pod_cidr) range.subnet = pod_cidr_at(place["subnet"], *range.pod_cidr, conf);
  if (!range.subnet) return std::nullopt;
  try {
    return Range::make(*range.subnet, range.start, range.end, range.gateway);
  } catch (const Error& e) {
    throw Error(e.code(), e.what(),
                cat(place.path(), ".", e.details()));  // which begins with a key
  }
}

// Numbered in the order of the result, as in the names last_reserved_ip.N.
void add_set(const std::vector<Reader>& places, Conf& conf) {
  const auto read = [&places, &conf] {
    RangeSet set;
    bool is_whole = true;
    for (const Reader& place : places) {
      const auto range = range_from(place, conf);
      if (range) set.ranges.push_back(*range);
      is_whole = is_whole && range;
    }
    if (is_whole || !set.ranges.empty()) cni::check_ranges(set);
    return set;
  };
  RangeSet set = cni::during(cat("invalid range set ", conf.sets.size()), read);
  if (!set.ranges.empty()) conf.sets.push_back(std::move(set));
}

void read_sets(const Reader& list, Conf& conf) {
  for (const Reader& set : list.elements()) add_set(set.elements(), conf);
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

void read_requested(const Reader& list, Conf& conf) {
  for (const Reader& place : list.elements()) {
    const auto ip = ip_in(place.as_string());
    if (!ip) place.fail("not an IP address");
    request_ip(*ip, conf);
  }
}

constexpr cni::Key kArgs[] = {
    {.name = "IP", .description = "requested address, before all others", .type = Type::kIpOrCidr}};

void read_cni_args(const std::string& text, Conf& conf) {
  for (const auto& [name, value] : cni::parse_args(text, kArgs)) {
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

constexpr cni::Key of_old_style(const char* name, Type type, const char* description) {
  return {.name = name, .description = description, .type = type, .or_empty = true};
}

constexpr cni::Key subnet_of_old_style() {
  cni::Key key = of_old_style("subnet", Type::kCidr,
                              "short form: a set of one range, placed before those of `ranges`. "
                              "Without it the next three keys are ignored");
  key.enumeration = cni::kPodCidrWords;
  return key;
}

void read_pod_cidr_file(const Reader& place, Conf& conf) {
  conf.pod_cidr_file = place.as_string();
  if (!conf.pod_cidr_file.starts_with('/')) place.fail("expected an absolute path");
}

constexpr auto kIpamKeys = cni::keys(
    cni::described<Conf>({.name = "type"}),
    cni::described<Conf>(  // read before the ranges
        {.name = "podCidrFile",
         .description =
             "path of a file with this node's pod CIDRs, for `usePodCidr`: flanneld's "
             "`/run/flannel/subnet.env`, or a network in each line. DEL does not read it"}),
    cni::custom<read_sets>({.name = "ranges",
                            .description = "range sets: an attachment gets **one address from each "
                                           "set**; the ranges of a set form one pool",
                            .type = Type::kObject,
                            .lists = 2,
                            .keys = kRangeKeys}),
    cni::described<Conf>(subnet_of_old_style()),
    cni::described<Conf>(of_old_style("rangeStart", Type::kIp, "as in `ipam.ranges`")),
    cni::described<Conf>(of_old_style("rangeEnd", Type::kIp, "as in `ipam.ranges`")),
    cni::described<Conf>(of_old_style("gateway", Type::kIp, "as in `ipam.ranges`")),
    cni::ipam_routes_key<&Conf::routes>(),
    cni::key<&Conf::data_dir>({.name = "dataDir",
                               .description = "parent directory of the network's lease directory",
                               .default_text = "`/var/lib/cni/networks`"}),
    cni::key<&Conf::resolv_conf>({.name = "resolvConf",
                                  .description = "path of a resolv.conf(5) file; its `nameserver`, "
                                                 "`domain`, `search` and `options` are returned "
                                                 "as DNS"}));

void read_ipam(const Reader& ipam, Conf& conf) {
  if (const Reader file = ipam["podCidrFile"]; file.present()) read_pod_cidr_file(file, conf);
  if (const Reader subnet = ipam["subnet"]; subnet.present() && !subnet.as_string().empty()) {
    add_set({ipam}, conf);
  }
  cni::read_keys(ipam, kIpamKeys, conf);
}

constexpr auto kArgsCniKeys =
    cni::keys(cni::custom<read_requested>({.name = "ips",
                                           .description = "requested addresses; a prefix length is "
                                                          "ignored",
                                           .type = Type::kIpOrCidr,
                                           .lists = 1}));
constexpr auto kArgsKeys = cni::keys(cni::part<kArgsCniKeys>({.name = "cni", .open = true}));

constexpr auto kRuntimeKeys = cni::keys(
    cni::custom<read_requested>({.name = "ips",
                                 .description = "requested addresses, after those of `args`",
                                 .type = Type::kIpOrCidr,
                                 .lists = 1}),
    cni::custom<read_sets>(
        {.name = "ipRanges",
         .description = "range sets as in `ipam.ranges`, placed before all others",
         .type = Type::kObject,
         .lists = 2,
         .keys = kRangeKeys,
         .folded = true}));

constexpr auto kKeys = cni::keys(
    cni::described<Conf>({.name = "name",
                          .description = "network name; also the name of its lease directory",
                          .default_text = "required"}),
    cni::part<kArgsKeys>({.name = "args", .open = true}),
    cni::part<kRuntimeKeys>({.name = "runtimeConfig", .open = true}),
    cni::custom<read_ipam>({.name = "ipam",  // its sets come after those of the runtime
                            .type = Type::kObject,
                            .keys = kIpamKeys,
                            .required = true}));

Conf read_conf(const cni::Request& request, PodCidrs pod_cidrs) {
  const Reader root = request.reader();
  const Reader ipam = root["ipam"];
  if (!ipam.present()) ipam.refuse("IPAM config missing 'ipam' key");
  Conf conf;
  conf.pod_cidrs = pod_cidrs;
  read_cni_args(request.args, conf);
  cni::read_keys(root, kKeys, conf);
  if (conf.data_dir.empty()) conf.data_dir = names::kHostLocalDataDir;
  return conf;
}

void require_ranges(const Conf& conf) {
  if (conf.sets.empty() && !conf.lacks_ranges)
    throw Error(Code::kInvalidConfig, "no IP ranges specified",
                "ipam.ranges: expected a range, here or in ipam.subnet");
}

}  // namespace

constinit const cni::Manual kManual{
    .purpose =
        "is an IPAM plugin: allocates addresses from ranges and stores each lease as a file on the "
        "node",
    .keys = kKeys,
    .args = kArgs,
    .facts = kFacts};

std::string data_dir_from(const cni::Request& request) {
  std::string dir;
  const Reader root = request.reader();  // outlives the places below it
  root["ipam"].into("dataDir", dir);
  return dir.empty() ? std::string(names::kHostLocalDataDir) : dir;
}

Conf Conf::parse(const cni::Request& request, PodCidrs pod_cidrs) {
  Conf conf = read_conf(request, pod_cidrs);
  require_ranges(conf);
  check_together(conf.sets, request.version);
  conf.segment = Segment::of(request);
  return conf;
}

Conf Conf::parse_without_attachment(const cni::Request& request, PodCidrs pod_cidrs) {
  Conf conf = read_conf(request, pod_cidrs);
  const Reader root = request.reader();
  bool promised = false;
  root["capabilities"].into("ipRanges", promised);
  if (!promised) require_ranges(conf);
  check_together(conf.sets, request.version);
  return conf;
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

}  // namespace host_local
