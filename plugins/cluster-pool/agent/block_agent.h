#pragma once

#include <functional>
#include <memory>
#include <string>

#include "plugins/cluster-pool/agent/conf.h"
#include "plugins/names/blocks.h"

/// The part of patchbay-agent that claims blocks of pools of a cluster for the plugin cluster-pool.
namespace block_agent {

struct Paths {
  std::string folder = names::kBlocksDir;
  std::string socket = names::kBlocksSocket;
};

/// Serves until its end, in threads of its own, which begin in the constructor: signals are blocked
/// before. An engine that is away is no reason to end.
class BlockAgent {
 public:
  /// \param metrics called with the metrics in the text format of Prometheus; may be empty.
  /// \throws cni::Error, netlink::Error.
  BlockAgent(Conf conf, const Paths& paths, std::function<void(const std::string&)> metrics = {});
  ~BlockAgent();
  BlockAgent(const BlockAgent&) = delete;
  BlockAgent& operator=(const BlockAgent&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace block_agent
