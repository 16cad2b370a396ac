#pragma once

#include <map>
#include <string>
#include <vector>

#include "libcni/daemon/event_loop.h"
#include "plugins/cluster-pool/agent/view.h"

namespace block_agent {

/// Blocks of other nodes that a list did not have, and no event had removed. They were returned
/// while this agent did not hear of it, or the engine was restored, which its revision does not
/// tell: then their nodes claim them again. They stay in the view for the time that all nodes have
/// for that.
class Vanished {
 public:
  /// After View::replace(), with what it returned. \param until of those that were there until now.
  void keep(View& view, std::vector<Object> gone, cni::BootTime until);
  /// Those whose time is over. Returns the next such time.
  cni::BootTime drop(View& view, cni::BootTime now);

 private:
  struct One {
    Object object;
    cni::BootTime until;
  };
  std::map<std::string, One> all_;  ///< by key_of()
};

}  // namespace block_agent
