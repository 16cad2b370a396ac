#include "plugins/host-local/conf.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcni/config/common_keys.h"
#include "libcni/config/pod_cidr.h"
#include "plugins/host-local/facts.h"
#include "plugins/names/state.h"

namespace host_local {

namespace {

using leases::Range;
using leases::RangeSet;
using leases::WrittenRange;
using netlink::Cidr;

using cni::cat;
using cni::Reader;
using cni::Type;

// The config as it is read.
struct Parsed {
  leases::Conf conf = {};  // whose sets: runtimeConfig.ipRanges, then ipam.subnet, then ipam.ranges
  // Path of the file with the node's pod CIDRs; empty is none. See cni::pod_cidr_in().
  std::string pod_cidr_file = {};
  PodCidrs pod_cidrs = PodCidrs::kRead;
  bool lacks_ranges = false;  // of those, as they were skipped
};

struct Written {
  leases::WrittenRange range;
  std::optional<netlink::Family> pod_cidr;  // in place of the subnet
};

void read_subnet(const Reader& place, Written& out) {
  if (!place.present() || place.as_string().empty()) {
    place.refuse("IP <nil> not v4 nor v6",
                 "expected the subnet of the range, for example 10.1.2.0/24");
  }
  out.pod_cidr = cni::pod_cidr_family(place.as_string());
  if (out.pod_cidr) return;
  out.range.subnet = place.as_cidr();
  if (out.range.subnet->ip.is_v4() && place.as_string().find(':') != std::string::npos) {
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
    cni::key<&Written::range, &WrittenRange::start>(leases::kRangeStart),
    cni::key<&Written::range, &WrittenRange::end>(leases::kRangeEnd),
    cni::key<&Written::range, &WrittenRange::gateway>(leases::kGateway));

// Empty: not to be read.
std::optional<Cidr> pod_cidr_at(const Reader& place, netlink::Family family, Parsed& out) {
  if (out.pod_cidr_file.empty()) {
    place.fail("requires ipam.podCidrFile, which names the file with the pod CIDRs of this node");
  }
  out.lacks_ranges = out.pod_cidrs == PodCidrs::kSkip;
  if (out.lacks_ranges) return std::nullopt;
  return cni::during(place.path(), [&] { return cni::pod_cidr_in(out.pod_cidr_file, family); });
}

// Empty: a pod CIDR that is not to be read.
std::optional<Range> range_from(const Reader& place, Parsed& out) {
  Written written;
  cni::read_keys(place, kRangeKeys, written);
  WrittenRange& range = written.range;
  if (written.pod_cidr) range.subnet = pod_cidr_at(place["subnet"], *written.pod_cidr, out);
  if (!range.subnet) return std::nullopt;
  return range.whole(place);
}

// Numbered in the order of the result, as in the names last_reserved_ip.N.
void add_set(const std::vector<Reader>& places, Parsed& out) {
  const auto read = [&places, &out] {
    RangeSet set;
    bool is_whole = true;
    for (const Reader& place : places) {
      const auto range = range_from(place, out);
      if (range) set.ranges.push_back(*range);
      is_whole = is_whole && range;
    }
    if (is_whole || !set.ranges.empty()) cni::check_ranges(set);
    return set;
  };
  RangeSet set = cni::during(cat("invalid range set ", out.conf.sets.size()), read);
  if (!set.ranges.empty()) out.conf.sets.push_back(std::move(set));
}

void read_sets(const Reader& list, Parsed& out) {
  for (const Reader& set : list.elements()) add_set(set.elements(), out);
}

constexpr cni::KeyOf<Parsed> of_old_style(const char* name) {
  cni::Key key = leases::as_in_ranges(name, Type::kIp);
  key.or_empty = true;
  return {key};
}

constexpr cni::Key ip_ranges() {
  cni::Key key = leases::range_sets(kRangeKeys);
  key.name = "ipRanges";
  key.description = "range sets as in `ipam.ranges`, placed before all others";
  key.folded = true;
  return key;
}

void read_pod_cidr_file(const Reader& place, Parsed& out) {
  out.pod_cidr_file = place.as_string();
  if (!out.pod_cidr_file.starts_with('/')) place.fail("expected an absolute path");
}

constexpr auto kIpamKeys = cni::keys(
    cni::described<Parsed>({.name = "type"}),
    cni::described<Parsed>(  // read before the ranges
        {.name = "podCidrFile",
         .description =
             "path of a file with this node's pod CIDRs, for `usePodCidr`: flanneld's "
             "`/run/flannel/subnet.env`, or a network in each line. DEL does not read it"}),
    cni::custom<read_sets>(leases::range_sets(kRangeKeys)),
    cni::described<Parsed>({.name = "subnet",
                            .description = "short form: a set of one range, placed before those of "
                                           "`ranges`. Without it the next three keys are ignored",
                            .type = Type::kCidr,
                            .enumeration = cni::kPodCidrWords,
                            .or_empty = true}),
    of_old_style("rangeStart"), of_old_style("rangeEnd"), of_old_style("gateway"),
    cni::ipam_routes_key<&Parsed::conf, &leases::Conf::routes>(),
    cni::key<&Parsed::conf, &leases::Conf::data_dir>(leases::kDataDir),
    cni::key<&Parsed::conf, &leases::Conf::resolv_conf>(leases::kResolvConf));

void read_ipam(const Reader& ipam, Parsed& out) {
  if (const Reader file = ipam["podCidrFile"]; file.present()) read_pod_cidr_file(file, out);
  if (const Reader subnet = ipam["subnet"]; subnet.present() && !subnet.as_string().empty()) {
    add_set({ipam}, out);
  }
  cni::read_keys(ipam, kIpamKeys, out);
}

void read_runtime_ips(const Reader& list, Parsed& out) { leases::read_requested(list, out.conf); }

constexpr auto kRuntimeKeys = cni::keys(cni::custom<read_runtime_ips>(leases::kRuntimeIps),
                                        cni::custom<read_sets>(ip_ranges()));

constexpr auto kKeys = cni::keys(
    cni::described<Parsed>({.name = "name",
                            .description = "network name; also the name of its lease directory",
                            .default_text = "required"}),
    cni::part<leases::kArgsKeys, &Parsed::conf>({.name = "args", .open = true}),
    cni::part<kRuntimeKeys>({.name = "runtimeConfig", .open = true}),
    cni::custom<read_ipam>({.name = "ipam",  // its sets come after those of the runtime
                            .type = Type::kObject,
                            .keys = kIpamKeys,
                            .required = true}));

Parsed read_conf(const cni::Request& request, PodCidrs pod_cidrs) {
  const Reader root = request.reader();
  leases::require_ipam(root);
  Parsed out{.pod_cidrs = pod_cidrs};
  leases::read_request_args(request.args, out.conf);
  cni::read_keys(root, kKeys, out);
  if (out.conf.data_dir.empty()) out.conf.data_dir = names::kHostLocalDataDir;
  return out;
}

void require_ranges(const Parsed& out) {
  if (!out.lacks_ranges) leases::require_ranges(out.conf);
}

}  // namespace

constinit const cni::Manual kManual{
    .purpose =
        "is an IPAM plugin: allocates addresses from ranges and stores each lease as a file on the "
        "node",
    .keys = kKeys,
    .args = leases::kRequestArgs,
    .facts = kFacts};

leases::Conf parse(const cni::Request& request, PodCidrs pod_cidrs) {
  Parsed out = read_conf(request, pod_cidrs);
  require_ranges(out);
  leases::check_together(out.conf.sets, request.version);
  out.conf.segment = leases::Segment::of(request);
  return std::move(out.conf);
}

leases::Conf parse_without_attachment(const cni::Request& request, PodCidrs pod_cidrs) {
  Parsed out = read_conf(request, pod_cidrs);
  const Reader root = request.reader();
  bool promised = false;
  root["capabilities"].into("ipRanges", promised);
  if (!promised) require_ranges(out);
  leases::check_together(out.conf.sets, request.version);
  return std::move(out.conf);
}

}  // namespace host_local
