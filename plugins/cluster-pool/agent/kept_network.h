#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "libcni/daemon/event_loop.h"
#include "plugins/cluster-pool/agent/own_claims.h"
#include "plugins/cluster-pool/agent/pause.h"
#include "plugins/state/blocks.h"

namespace block_agent {

/// What went wrong with a network, until it is right.
struct Failure {
  Pauses pauses = {};
  std::string logged = {};  ///< the last error
  bool is_engines = false;  ///< it is a call that may succeed later, not a file or the config
};

/// What is known of a network beside its file.
struct KeptNetwork {
  using Time = cni::BootTime;
  std::optional<blocks::Held> held = {};  ///< as the file; empty: no file yet
  bool is_written = true;                 ///< false: the file is behind, or unknown
  blocks::Pool pinned = {};               ///< whose subnets have pools in the engine
  Time pinned_at{0};                      ///< when that was so
  std::map<netlink::Cidr, Time> empty_since = {};
  std::string shortage = {};  ///< claim of our shortage; "": none
  Time shortage_at{0};
  std::uint64_t written = 0;                      ///< View::changes() of the last NETWORK.nodes
  Time write_at{0};                               ///< not before
  std::map<std::string, Time> others_short = {};  ///< claims of shortages, when first seen
  Time look_at{0};                                ///< when to look at leases again
  bool is_blind = false;                          ///< their folder is not there, as was logged
  std::optional<blocks::Want> unwaited = {};      ///< the want for which no ADD waits
  Time unwaited_at{0};                            ///< when that was seen first
  Time ahead{0};  ///< of the clock: what work() was called with. It goes on during calls
  OwnClaims own = {};
};

}  // namespace block_agent
