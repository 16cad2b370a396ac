#include "libcni/config/address_range.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "libcni/common/error.h"

namespace cni {

namespace {

using netlink::Cidr;
using netlink::Ip;

constexpr std::uint64_t kMany = std::numeric_limits<std::uint64_t>::max();

Error wrong(const std::string& why, const std::string& details = {}) {
  return {Code::kInvalidConfig, why, details};
}

std::string outside(const char* which, const Ip& ip, const Cidr& subnet) {
  return cat(which, " ", ip.str(), " not in network ", subnet.str());
}

}  // namespace

AddressRange AddressRange::make(const Cidr& subnet, std::optional<Ip> start, std::optional<Ip> end,
                                std::optional<Ip> gateway) {
  if (subnet.prefix > subnet.ip.bits() - 2) {
    throw wrong(cat("Network ", subnet.str(), " too small to allocate from"),
                "subnet: expected at least four addresses");
  }
  if (subnet != subnet.network()) {
    throw wrong(cat("Network has host bits set. For a subnet mask of length ", subnet.prefix,
                    " the network address is ", subnet.network().ip.str()),
                cat("subnet: \"", subnet.str(), "\""));
  }
  // Neither can overflow: the subnet has at least four addresses.
  const Ip first = *subnet.ip.next();
  const Ip broadcast = subnet.ip.broadcast(subnet.prefix);
  const Ip last = subnet.ip.is_v4() ? *broadcast.prev() : broadcast;
  AddressRange range{subnet, start.value_or(first), end.value_or(last), gateway.value_or(first)};
  if (start && !subnet.contains(*start)) {
    throw wrong(outside("RangeStart", *start, subnet), "rangeStart");
  }
  if (end && !subnet.contains(*end)) throw wrong(outside("RangeEnd", *end, subnet), "rangeEnd");
  if (range.start > range.end) {
    const bool blame_end = !start;
    throw wrong(
        blame_end ? outside("RangeEnd", range.end, subnet)
                  : outside("RangeStart", range.start, subnet),
        cat(blame_end ? "rangeEnd" : "rangeStart", ": the range ", range.str(), " has no address"));
  }
  return range;
}

std::uint64_t AddressRange::size() const {
  return contains(gateway) ? netlink::count_but_one(start, end) : netlink::count(start, end);
}

const AddressRange* RangeSet::find(const Ip& ip) const {
  const auto it =
      std::ranges::find_if(ranges, [&ip](const AddressRange& range) { return range.contains(ip); });
  return it == ranges.end() ? nullptr : &*it;
}

bool RangeSet::gives(const Ip& ip) const {
  const AddressRange* const range = find(ip);
  return range != nullptr && ip != range->gateway;
}

bool RangeSet::overlaps(const RangeSet& other) const {
  return std::ranges::any_of(ranges, [&other](const AddressRange& mine) {
    return std::ranges::any_of(
        other.ranges, [&mine](const AddressRange& theirs) { return mine.overlaps(theirs); });
  });
}

std::uint64_t RangeSet::size() const {
  std::uint64_t sum = 0;
  for (const AddressRange& range : ranges) {
    const std::uint64_t one = range.size();
    sum = one > kMany - sum ? kMany : sum + one;
  }
  return sum;
}

std::string RangeSet::str() const {
  std::string out;
  for (const AddressRange& range : ranges) out += cat(out.empty() ? "" : ",", range.str());
  return out;
}

void check_ranges(const RangeSet& set) {
  if (set.ranges.empty()) throw wrong("empty range set");
  for (std::size_t i = 0; i < set.ranges.size(); ++i) {
    if (set.ranges[i].start.family() != set.ranges[0].start.family()) {
      throw wrong("mixed address families", cat(set.ranges[0].str(), " and ", set.ranges[i].str()));
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (!set.ranges[k].overlaps(set.ranges[i])) continue;
      throw wrong(cat("subnets ", set.ranges[k].str(), " and ", set.ranges[i].str(), " overlap"));
    }
  }
}

}  // namespace cni
