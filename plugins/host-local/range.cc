#include "plugins/host-local/range.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "libcni/common/error.h"

namespace host_local {

namespace {

constexpr std::uint64_t kMany = std::numeric_limits<std::uint64_t>::max();

cni::Error wrong(const std::string& why) { return {cni::Code::kInvalidConfig, why}; }

std::string outside(const char* which, const Ip& ip, const Cidr& subnet) {
  return cni::cat(which, " ", ip.str(), " not in network ", subnet.str());
}

}  // namespace

Range Range::make(const Cidr& subnet, std::optional<Ip> start, std::optional<Ip> end,
                  std::optional<Ip> gateway) {
  if (subnet.prefix > subnet.ip.bits() - 2) {
    throw wrong(cni::cat("Network ", subnet.str(), " too small to allocate from"));
  }
  if (subnet != subnet.network()) {
    throw wrong(cni::cat("Network has host bits set. For a subnet mask of length ", subnet.prefix,
                         " the network address is ", subnet.network().ip.str()));
  }
  // Neither can overflow: the subnet has at least four addresses.
  const Ip first = *subnet.ip.next();
  const Ip broadcast = subnet.ip.broadcast(subnet.prefix);
  const Ip last = subnet.ip.is_v4() ? *broadcast.prev() : broadcast;
  Range range{subnet, start.value_or(first), end.value_or(last), gateway.value_or(first)};
  if (start && !subnet.contains(*start)) throw wrong(outside("RangeStart", *start, subnet));
  if (end && !subnet.contains(*end)) throw wrong(outside("RangeEnd", *end, subnet));
  if (range.start > range.end) {
    const bool blame_end = !start;
    throw wrong(cni::cat(blame_end ? outside("RangeEnd", range.end, subnet)
                                   : outside("RangeStart", range.start, subnet),
                         ": the range ", range.str(), " has no address"));
  }
  return range;
}

std::uint64_t Range::size() const {
  const std::uint64_t all = netlink::count(start, end);
  return all != kMany && contains(gateway) ? all - 1 : all;
}

const Range* RangeSet::find(const Ip& ip) const {
  const auto it = std::find_if(ranges.begin(), ranges.end(),
                               [&ip](const Range& range) { return range.contains(ip); });
  return it == ranges.end() ? nullptr : &*it;
}

bool RangeSet::gives(const Ip& ip) const {
  const Range* const range = find(ip);
  return range != nullptr && ip != range->gateway;
}

bool RangeSet::overlaps(const RangeSet& other) const {
  return std::any_of(ranges.begin(), ranges.end(), [&other](const Range& mine) {
    return std::any_of(other.ranges.begin(), other.ranges.end(),
                       [&mine](const Range& theirs) { return mine.overlaps(theirs); });
  });
}

std::uint64_t RangeSet::size() const {
  std::uint64_t sum = 0;
  for (const Range& range : ranges) {
    const std::uint64_t one = range.size();
    sum = one > kMany - sum ? kMany : sum + one;
  }
  return sum;
}

std::string RangeSet::str() const {
  std::string out;
  for (const Range& range : ranges) out += cni::cat(out.empty() ? "" : ",", range.str());
  return out;
}

void check(const RangeSet& set) {
  if (set.ranges.empty()) throw wrong("empty range set");
  for (std::size_t i = 0; i < set.ranges.size(); ++i) {
    if (set.ranges[i].start.family() != set.ranges[0].start.family()) {
      throw wrong("mixed address families");
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (!set.ranges[k].overlaps(set.ranges[i])) continue;
      throw wrong(
          cni::cat("subnets ", set.ranges[k].str(), " and ", set.ranges[i].str(), " overlap"));
    }
  }
}

Cursor::Cursor(const RangeSet& set, const std::optional<Ip>& last) : set_(&set) {
  const Range* const range = last ? set.find(*last) : nullptr;
  if (range == nullptr) return;
  range_ = static_cast<std::size_t>(range - set.ranges.data());
  at_ = last;
}

void Cursor::advance() {
  if (!at_) {
    at_ = set_->ranges[range_].start;
  } else if (*at_ == set_->ranges[range_].end) {
    range_ = (range_ + 1) % set_->ranges.size();
    at_ = set_->ranges[range_].start;
  } else {
    at_ = at_->next();  // before the end of the range, hence not the last of its family
  }
}

std::optional<Cursor::Candidate> Cursor::next() {
  for (;;) {
    advance();
    if (first_ && *at_ == *first_) return std::nullopt;
    if (!first_) first_ = at_;
    const Range& range = set_->ranges[range_];
    if (*at_ != range.gateway) return Candidate{*at_, &range};
  }
}

}  // namespace host_local
