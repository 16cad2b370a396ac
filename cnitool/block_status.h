#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tool {

/// What the patchbay-agent that runs says of blocks.
struct BlockStatus {
  struct Missing {
    std::string node;  ///< it has blocks, and there is no Node object
    std::int64_t seconds = 0;
  };
  std::string engine = {};       ///< "etcd", "the API server"
  bool serves = true;            ///< false: it waits for another agent, or cannot
  bool is_engine_there = false;  ///< it was reached
  std::string why = {};          ///< why it does not serve, or the engine is not there
  std::vector<Missing> missing = {};
};

/// nullopt: nobody answers within a second. What an answer lacks is as in an empty one, and so is
/// all that is not to be asked, but by root.
std::optional<BlockStatus> block_status();

}  // namespace tool
