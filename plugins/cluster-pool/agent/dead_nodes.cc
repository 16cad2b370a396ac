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

// The answer is for the next look. A question of another agent is as good.
std::optional<Object> DeadNodes::ask(const std::vector<Object>& blocks) const {
  const auto others = std::ranges::find_if(blocks, is_question);
  if (others != blocks.end()) return *others;
  for (const Object& one : blocks) {
    Object question = one;
    question.claim = new_question();
    if (engine_.replace(one, question)) return question;
  }
  return std::nullopt;
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
  Missing& missing = at->second;
  if (++missing.looks < kLooks || now - std::max(missing.since, missing.answered) < gone_) return 0;
  const auto blocks = view.blocks_of(node);
  if (!missing.question) {
    missing.question = ask(blocks);
    return 0;
  }
  const Removal asked = engine_.remove(*missing.question);
  missing.question.reset();
  if (asked == Removal::kOther) {  // another agent's question, or the node's own claim again
    missing.answered = now;
    cni::log(cni::Level::kWarning, "a node without a Node object answers: its blocks stay",
             {{"node", node}});
    return 0;
  }
  if (asked == Removal::kGone) return 0;  // another agent removed it, or its own a stale claim
  std::size_t out = 1;
  for (const Object& block : blocks) {
    if (engine_.has_node(node)) return out;
    if (engine_.remove(block) == Removal::kRemoved) ++out;
  }
  missing_.erase(at);
  cni::log(cni::Level::kWarning, "released the blocks of a node that was removed",
           {{"node", node}, {"blocks", cni::cat(out)}});
  return out;
}

std::size_t release_if_silent(const Engine& engine, const std::string& node,
                              const std::function<void()>& wait) {
  const auto before = engine.list(Kind::kBlock);
  const auto one = std::ranges::find(before, node, &Object::node);
  if (one == before.end()) return release_blocks(engine, node);
  Object question = *one;
  question.claim = new_question();
  const bool is_asked = engine.replace(*one, question);
  if (is_asked) wait();
  // Only an unanswered question is removed, because the agent may answer at any time. A missing
  // question is no silence: a running agent removes stale claims.
  if (is_asked && engine.remove(question) == Removal::kRemoved) {
    return 1 + release_blocks(engine, node);
  }
  const auto after = engine.list(Kind::kBlock);
  const auto is_answer = [&](const Object& now) {
    return now.cidr == one->cidr && now.network == one->network && now.node == node &&
           !is_question(now);
  };
  const std::string block = cni::cat("block ", one->cidr.str(), " of network '", one->network, "'");
  if (is_asked && std::ranges::any_of(after, is_answer)) {
    throw cni::Error(
        cni::Code::kInvalidConfig,
        cni::cat("release '", node, "': it lives: its agent has answered for ", block),
        "stop patchbay-agent and the pods on it first, or --force if they do not run any more");
  }
  throw cni::Error(cni::Code::kTryAgainLater,
                   cni::cat("release '", node, "': ", block, " changed at the same time"),
                   "its agent or another release works on it: try again");
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
