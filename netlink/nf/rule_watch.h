#pragma once

#include <vector>

#include "netlink/channel.h"
#include "netlink/nf/batch.h"

namespace netlink::nf {

/// Hears of the rules that are added, by whatever program, in the network namespace that the thread
/// is in when it is made.
class RuleWatch {
 public:
  /// \throws Error.
  RuleWatch();
  /// Those of the chain since the last call, with their handles. Where so many came that the kernel
  /// dropped some, those that it kept.
  std::vector<Rule> added(const ChainId& chain);

 private:
  Channel channel_;
};

}  // namespace netlink::nf
