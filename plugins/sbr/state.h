#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "netlink/types/ip.h"
#include "plugins/names/state.h"
#include "plugins/state/state_dir.h"

namespace sbr {

/// The objects that ADD made in a pod's namespace.
struct State {
  static constexpr const char* kDir = names::kSbrStateDir;

  plugins::StateOwner owner = {};
  std::vector<netlink::Ip> addresses = {};  ///< that have a rule
  std::vector<std::uint32_t> tables = {};   ///< to which the rule of each address leads
  std::vector<std::string> moved = {};      ///< routes that went to the tables, as words
  /// All that left the main table (netlink::stored()). Which of them are in no table, another
  /// default route replaced.
  std::vector<std::string> routes = {};
  std::vector<std::string> hints = {};  ///< ours in the main table, as words
  bool operator==(const State&) const = default;

  bool has_rule(const netlink::Ip& address, std::uint32_t table) const;
  std::string text() const;
  /// Empty: a torn file. \throws cni::Error: plugins::from_json_text().
  static std::optional<State> from(const std::string& text);
};
using StateDir = plugins::StateDir<State>;

template <class T, class Value>
bool is_in(const std::vector<T>& list, const Value& value) {
  return std::ranges::find(list, value) != list.end();
}

}  // namespace sbr
