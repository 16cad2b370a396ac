#include "plugins/cluster-pool/conf.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "libcni/config/common_keys.h"
#include "plugins/cluster-pool/facts.h"
#include "plugins/names/state.h"
#include "plugins/state/blocks.h"

namespace cluster_pool {

namespace {

using blocks::Range;
using cni::cat;
using cni::Code;
using cni::Error;
using cni::Reader;
using cni::Type;
using leases::as_in_ranges;
using leases::WrittenRange;
using netlink::Cidr;
using netlink::Ip;

constexpr unsigned kBlockSizeV4 = 28, kBlockSizeV6 = 120;
constexpr unsigned kMinHostBits = 2;
constexpr std::int64_t kMaxWait = 600;       // seconds
constexpr std::size_t kMaxExclusions = 256;  // of a range: each ADD looks at all
constexpr std::size_t kMaxRanges = 64;       // of a pool

struct Written {
  leases::WrittenRange range;
  unsigned block_size = 0;
  std::vector<Cidr> exclude;
};

// The config as it is read.
struct Parsed {
  Conf conf = {};
  std::int64_t wait = 10;
};

void read_subnet(const Reader& place, Written& out) {
  if (!place.present()) place.fail("expected the subnet of the range, for example 10.5.0.0/16");
  out.range.subnet = place.as_cidr();
}

Cidr network_at(const Reader& place) {
  const std::string text = place.as_string();
  if (const auto ip = Ip::parse(text)) return {*ip, ip->bits()};
  const auto cidr = Cidr::parse(text);
  if (!cidr) place.fail("expected an address, or a network with its prefix length");
  if (*cidr != cidr->network()) {
    place.fail(cat("has host bits set: the network is ", cidr->network().str()));
  }
  return *cidr;
}

void read_exclude(const Reader& list, Written& range) {
  range.exclude.clear();
  for (const Reader& place : list.elements()) {
    if (range.exclude.size() == kMaxExclusions) place.fail(cat("more than ", kMaxExclusions));
    range.exclude.push_back(network_at(place));
  }
}

constexpr auto kRangeKeys = cni::keys(
    cni::custom<read_subnet>(
        {.name = "subnet",
         .description = "network address with prefix length, of the whole cluster; at least four "
                        "addresses",
         .type = Type::kCidr,
         .required = true}),
    cni::key<&Written::range, &WrittenRange::start>(leases::kRangeStart),
    cni::key<&Written::range, &WrittenRange::end>(leases::kRangeEnd),
    cni::key<&Written::range, &WrittenRange::gateway>(leases::kGateway),
    cni::key<&Written::block_size>(
        {.name = "blockSize",
         .description = "prefix length of the blocks that nodes claim, from that of the subnet to "
                        "30, IPv6: 126",
         .default_text = "28, IPv6: 120; that of a smaller subnet",
         .minimum = 1,
         .maximum = 126}),
    cni::custom<read_exclude>({.name = "exclude",
                               .description = "addresses and networks of the subnet that no pod "
                                              "gets",
                               .type = Type::kIpOrCidr,
                               .lists = 1}));

// 0: the default.
unsigned block_size_in(const Cidr& subnet, const Reader& place, unsigned size) {
  const unsigned largest = subnet.ip.bits() - kMinHostBits;
  const unsigned smallest = subnet.prefix;
  if (size == 0) return std::max(subnet.ip.is_v4() ? kBlockSizeV4 : kBlockSizeV6, smallest);
  if (size < smallest || size > largest) {
    // Not a place of its own: the table knows no subnet, and takes the value.
    throw Error(Code::kInvalidConfig,
                cat(place.path(), ": blockSize ", size, ": expected a prefix length from ",
                    smallest, ", that of the subnet, to ", largest, ", which has four addresses"));
  }
  return size;
}

// The reference allocates these two where the config names them; hosts of the segment do not take
// them for a pod's: RFC 1122, section 3.2.1.3, and RFC 4291, section 2.6.1.
void refuse_ends(const Reader& place, const Range& range) {
  if (range.start == range.subnet.ip) place["rangeStart"].fail("is the network's own address");
  if (range.subnet.ip.is_v4() && range.end == range.subnet.ip.broadcast(range.subnet.prefix)) {
    place["rangeEnd"].fail("is the broadcast address of the subnet");
  }
}

void refuse_exclusions(const Reader& place, const Range& range) {
  const auto list = place["exclude"].elements();
  for (std::size_t i = 0; i < range.exclude.size(); ++i) {
    const Cidr& one = range.exclude[i];
    const bool is_inside = one.prefix >= range.subnet.prefix && range.subnet.contains(one.ip);
    if (!is_inside) list[i].fail(cat("is not in the subnet ", range.subnet.str()));
  }
}

Range range_from(const Reader& place) {
  Written written;
  cni::read_keys(place, kRangeKeys, written);
  const leases::Range whole = written.range.whole(place);
  Range out{.subnet = whole.subnet,
            .start = whole.start,
            .end = whole.end,
            .gateway = whole.gateway,
            .block_size = block_size_in(whole.subnet, place, written.block_size),
            .exclude = std::move(written.exclude)};
  refuse_ends(place, out);
  refuse_exclusions(place, out);
  if (!out.first_block()) place.fail("all its addresses are excluded, or the gateway");
  return out;
}

// A block is of one range, so that a node that has it knows what it may give out.
void refuse_shared_block(const Range& one, const Range& other) {
  const auto first = [](const Range& range) { return range.block_of(range.start).ip; };
  const auto last = [](const Range& range) {
    return range.block_of(range.end).ip.broadcast(range.block_size);
  };
  if (first(one) > last(other) || first(other) > last(one)) return;
  throw Error(Code::kInvalidConfig,
              cat("ranges ", one.start.str(), "-", one.end.str(), " and ", other.start.str(), "-",
                  other.end.str(), " have a block in common"),
              "ipam.ranges: write one range, and what is not to be allocated in its exclude, or "
              "let the ranges begin and end with blocks");
}

void add_range(const Reader& place, blocks::Pool::Set& set, Conf& conf) {
  std::size_t count = set.size();
  for (const auto& one : conf.pool.sets) count += one.size();
  if (count == kMaxRanges) place.fail(cat("more than ", kMaxRanges, " ranges"));
  Range range = range_from(place);
  for (const auto& one : conf.pool.sets) {
    for (const Range& other : one) refuse_shared_block(other, range);
  }
  for (const Range& other : set) refuse_shared_block(other, range);
  set.push_back(std::move(range));
}

void add_set(const std::vector<Reader>& places, Parsed& out) {
  Conf& conf = out.conf;
  const std::string what = cat("invalid range set ", conf.pool.sets.size());
  cni::during(what, [&] {
    blocks::Pool::Set set;
    for (const Reader& place : places) add_range(place, set, conf);
    leases::RangeSet whole;
    for (const Range& one : set) {
      whole.ranges.push_back({one.subnet, one.start, one.end, one.gateway});
    }
    cni::check_ranges(whole);
    conf.leases.sets.push_back(std::move(whole));
    conf.pool.sets.push_back(std::move(set));
  });
}

void read_sets(const Reader& list, Parsed& out) {
  for (const Reader& set : list.elements()) add_set(set.elements(), out);
}

constexpr cni::Key block_size_as_in_ranges() {
  cni::Key key = as_in_ranges("blockSize", Type::kInteger);
  key.minimum = 1;
  key.maximum = 126;
  return key;
}

constexpr cni::Key exclude_as_in_ranges() {
  cni::Key key = as_in_ranges("exclude", Type::kIpOrCidr);
  key.lists = 1;
  return key;
}

constexpr auto kIpamKeys = cni::keys(
    cni::described<Parsed>({.name = "type"}),
    cni::custom<read_sets>(leases::range_sets(kRangeKeys)),
    cni::described<Parsed>({.name = "subnet",
                            .description = "short form: a set of one range, placed before those of "
                                           "`ranges`. The next five keys need it",
                            .type = Type::kCidr}),
    cni::described<Parsed>(as_in_ranges("rangeStart", Type::kIp)),
    cni::described<Parsed>(as_in_ranges("rangeEnd", Type::kIp)),
    cni::described<Parsed>(as_in_ranges("gateway", Type::kIp)),
    cni::described<Parsed>(block_size_as_in_ranges()),
    cni::described<Parsed>(exclude_as_in_ranges()),
    cni::ipam_routes_key<&Parsed::conf, &Conf::leases, &leases::Conf::routes>(),
    cni::key<&Parsed::conf, &Conf::leases, &leases::Conf::data_dir>(leases::kDataDir),
    cni::key<&Parsed::conf, &Conf::leases, &leases::Conf::resolv_conf>(leases::kResolvConf),
    cni::key<&Parsed::wait>(
        {.name = "waitForBlock",
         .description = "seconds that ADD waits for patchbay-agent to claim a block, where this "
                        "node has none with a free address; 0: it fails at once",
         .default_text = "10",
         .maximum = kMaxWait}));

void read_ipam(const Reader& ipam, Parsed& out) {
  if (ipam["subnet"].present()) {
    add_set({ipam}, out);
  } else {
    for (const char* const key : {"rangeStart", "rangeEnd", "gateway", "blockSize", "exclude"}) {
      if (ipam[key].present()) ipam[key].fail("requires ipam.subnet");
    }
  }
  cni::read_keys(ipam, kIpamKeys, out);
}

void read_runtime_ips(const Reader& list, Parsed& out) {
  leases::read_requested(list, out.conf.leases);
}

constexpr auto kRuntimeKeys = cni::keys(cni::custom<read_runtime_ips>(leases::kRuntimeIps));

constexpr auto kKeys = cni::keys(
    cni::described<Parsed>({.name = "name",
                            .description = "network name: that of the pool in the whole cluster, "
                                           "and of its lease directory",
                            .default_text = "required"}),
    cni::part<leases::kArgsKeys, &Parsed::conf, &Conf::leases>({.name = "args", .open = true}),
    cni::part<kRuntimeKeys>({.name = "runtimeConfig", .open = true}),
    cni::custom<read_ipam>(
        {.name = "ipam", .type = Type::kObject, .keys = kIpamKeys, .required = true}));

// Ranges of one pod are on one node, where no other one sees them.
void refuse_runtime_ranges(const Reader& root) {
  constexpr const char* kRanges = "ipRanges";  // in no table, which would make it a capability
  const Reader ranges = root["runtimeConfig"][kRanges];
  if (!ranges.present() || ranges.elements().empty()) return;
  ranges.fail(
      "cluster-pool takes no ranges from the runtime, because all nodes must have the "
      "same: write them in ipam.ranges");
}

// Which no node can have a block for.
void refuse_requests(const Conf& conf) {
  for (const Ip& ip : conf.leases.requested) {
    const Range* const range = conf.pool.find(ip);
    if (range != nullptr && range->gives(ip)) continue;
    const bool is_gateway = range != nullptr && ip == range->gateway;
    throw Error(Code::kInvalidConfig,
                is_gateway ? cat("requested ip ", ip.str(), " is subnet's gateway")
                           : cat("failed to allocate all requested IPs: ", ip.str()),
                range == nullptr ? "it is in no range of the pool" : "the pool excludes it");
  }
}

}  // namespace

constinit const cni::Manual kManual{
    .purpose =
        "is an IPAM plugin: allocates addresses from blocks of a range of the whole cluster, "
        "which patchbay-agent claims for the node",
    .keys = kKeys,
    .args = leases::kRequestArgs,
    .facts = kFacts};

Conf Conf::parse(const cni::Request& request) {
  const Reader root = request.reader();
  leases::require_ipam(root);
  if (request.network.size() > blocks::kMaxNetworkName) {
    root["name"].fail(cat("expected at most ", blocks::kMaxNetworkName,
                          " bytes with cluster-pool, whose files have the name"));
  }
  Parsed out;
  refuse_runtime_ranges(root);
  leases::read_request_args(request.args, out.conf.leases);
  cni::read_keys(root, kKeys, out);
  leases::Conf& leases = out.conf.leases;
  if (leases.data_dir.empty()) leases.data_dir = names::kHostLocalDataDir;
  leases::require_ranges(leases);
  leases::check_together(leases.sets, request.version);
  leases.segment = leases::Segment::of(request);
  out.conf.pool.data_dir = std::filesystem::absolute(leases.data_dir);  // as the agent needs it
  out.conf.wait = std::chrono::seconds(out.wait);
  refuse_requests(out.conf);
  return std::move(out.conf);
}

}  // namespace cluster_pool
