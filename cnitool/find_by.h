#pragma once

#include <algorithm>
#include <functional>
#include <iterator>

namespace tool {

/// The first one of a list with that member; null where there is none.
template <class List, class Member, class Value>
auto* find_by(const List& list, Member member, const Value& value) {
  const auto it = std::ranges::find_if(
      list, [&](const auto& one) { return std::invoke(member, one) == value; });
  return it == std::end(list) ? nullptr : &*it;
}

}  // namespace tool
