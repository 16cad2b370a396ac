#include "plugins/leases/cursor.h"

namespace leases {

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

}  // namespace leases
