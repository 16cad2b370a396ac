#pragma once

#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "libcni/daemon/event_loop.h"
#include "plugins/cluster-pool/agent/engine.h"
#include "plugins/cluster-pool/agent/view.h"

namespace block_agent {

/// Releases blocks of nodes whose Node object has not existed for a time. A node that is silent is
/// not dead: only an answer that the object does not exist counts, at each look and again at the
/// removal. Then its agent is asked, which answers as long as it runs. Each agent looks at a few
/// nodes at a time, all of them at all, so that a large cluster has no more calls than a small one
/// for each node.
class DeadNodes {
 public:
  using Time = cni::BootTime;
  /// engine has has_node, and outlives it.
  DeadNodes(std::string self, Time gone, const Engine* engine)
      : self_(std::move(self)), gone_(gone), engine_(*engine) {}

  /// Looks. Returns how many blocks were released. \throws cni::Error: the rest is for the next
  /// look.
  std::size_t look(const View& view, Time now);
  /// Until the next look.
  Time pause() const;
  /// Nodes with blocks and without a Node object, as far as it has looked, and since when.
  std::map<std::string, Time> missing() const;

 private:
  struct Missing {
    Time since;
    int looks = 1;
    Time answered{0};                     ///< by an agent of it, though there is no Node object
    std::optional<Object> question = {};  ///< as of release_if_silent()
  };
  std::optional<Object> ask(const std::vector<Object>& blocks) const;
  std::size_t judge(const std::string& node, const View& view, Time now);

  const std::string self_;
  const Time gone_;
  const Engine& engine_;
  std::map<std::string, Missing> missing_;
  std::minstd_rand random_{std::random_device{}()};
};

/// Asks an agent of the node whether it lives: one of its claims is replaced by a question, and
/// stays a claim of the node. Releases the node's blocks if the question is unanswered after
/// wait(). \throws cni::Error: kInvalidConfig if the node lives.
std::size_t release_if_silent(const Engine& engine, const std::string& node,
                              const std::function<void()>& wait);

/// Removes all blocks of a node, as they are now, and returns their number. \throws cni::Error.
/// \param but_machine blocks of that machine stay; "": of none
std::size_t release_blocks(const Engine& engine, const std::string& node,
                           const std::string& but_machine = {});

}  // namespace block_agent
