#include "plugins/cluster-pool/agent/dead_nodes.h"

#include <algorithm>
#include <vector>

#include "libcni/common/error.h"
#include "libcni/daemon/log.h"

namespace block_agent {

namespace {

constexpr std::size_t kNodesAtOnce = 4;
constexpr int kLooks = 3;  // at least, before a node is taken for removed
constexpr int kLooksInTime = 12;

}  // namespace

DeadNodes::Time DeadNodes::pause() const {
  const Time whole = std::clamp<Time>(gone_ / kLooksInTime, std::chrono::milliseconds(300),
                                      std::chrono::minutes(5));
  return whole;
}

std::map<std::string, DeadNodes::Time> DeadNodes::missing() const {
  std::map<std::string, Time> out;
  for (const auto& [node, one] : missing_) out.emplace(node, one.since);
  return out;
}

std::size_t DeadNodes::look(const View& view, Time now) {
  const auto all = view.nodes();
  std::erase_if(missing_, [&](const auto& one) { return !all.contains(one.first); });
  std::vector<std::string> others, chosen;
  for (const std::string& node : all) {
    if (node == self_) continue;
    (missing_.contains(node) ? chosen : others).push_back(node);
  }
  std::ranges::sample(others, std::back_inserter(chosen), kNodesAtOnce, random_);
  std::size_t out = 0;
  for (const std::string& node : chosen) out += judge(node, view, now);
  return out;
}

std::size_t DeadNodes::judge(const std::string& node, const View& view, Time now) {
  if (engine_.has_node(node)) {
    missing_.erase(node);
    return 0;
  }
  const auto [at, is_new] = missing_.try_emplace(node, Missing{now});
  if (is_new) {
    cni::log(cni::Level::kWarning, "a node with blocks has no Node object", {{"node", node}});
    return 0;
  }
  if (++at->second.looks < kLooks || now - at->second.since < gone_) return 0;
  std::size_t out = 0;
  for (const Object& block : view.blocks_of(node)) {
    if (engine_.has_node(node)) return out;
    if (engine_.remove(block) == Removal::kRemoved) ++out;
  }
  missing_.erase(at);
  cni::log(cni::Level::kWarning, "released the blocks of a node that was removed",
           {{"node", node}, {"blocks", cni::cat(out)}});
  return out;
}

std::size_t release_blocks(const Engine& engine, const std::string& node,
                           const std::string& but_machine) {
  std::size_t out = 0;
  for (const Kind kind : {Kind::kBlock, Kind::kShortage}) {
    for (const Object& one : engine.list(kind)) {
      if (one.node != node || (!but_machine.empty() && one.machine == but_machine)) continue;
      if (engine.remove(one) == Removal::kRemoved && kind == Kind::kBlock) ++out;
    }
  }
  return out;
}

}  // namespace block_agent
