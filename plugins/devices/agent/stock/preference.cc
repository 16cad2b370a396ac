#include "plugins/devices/agent/stock/preference.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace devices {

namespace {

constexpr int kUnknownNode = -1, kNotOffered = -2;

/// Devices of one NUMA node that are left to choose.
struct Group {
  int node = 0;
  bool has_required = false;
  std::vector<std::string> ids;
};

// The best first: one that has a required device; else the smallest that is enough; else the
// largest. Devices whose node is unknown come after the others.
bool is_better(const Group& a, const Group& b, std::size_t wanted) {
  const auto rank = [wanted](const Group& of) {
    const bool is_enough = of.ids.size() >= wanted;
    const auto size = static_cast<std::ptrdiff_t>(of.ids.size());
    return std::tuple(of.node == kNotOffered, of.node == kUnknownNode, !of.has_required, !is_enough,
                      is_enough ? size : -size, of.node);
  };
  return rank(a) < rank(b);
}

}  // namespace

std::vector<std::string> preferred_of(const Core::Preference& asked,
                                      const std::map<std::string, std::optional<int>>& numa) {
  const auto node_of = [&numa](const std::string& id) {
    const auto found = numa.find(id);
    return found == numa.end() ? kNotOffered : found->second.value_or(kUnknownNode);
  };
  std::vector<std::string> out;
  std::set<std::string> taken;
  std::map<int, Group> groups;
  for (const std::string& id : asked.required) {
    if (out.size() == asked.size || !taken.insert(id).second) continue;
    out.push_back(id);
    groups[node_of(id)].has_required = true;
  }
  for (const std::string& id : std::set(asked.available.begin(), asked.available.end())) {
    if (!taken.contains(id)) groups[node_of(id)].ids.push_back(id);
  }
  for (auto& [node, group] : groups) group.node = node;
  while (out.size() < asked.size && !groups.empty()) {
    const std::size_t wanted = asked.size - out.size();
    const auto best = std::min_element(
        groups.begin(), groups.end(),
        [&](const auto& a, const auto& b) { return is_better(a.second, b.second, wanted); });
    for (const std::string& id : best->second.ids) {
      if (out.size() < asked.size) out.push_back(id);
    }
    groups.erase(best);
  }
  return out;
}

}  // namespace devices
