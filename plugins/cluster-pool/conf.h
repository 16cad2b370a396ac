#pragma once

#include <chrono>

#include "libcni/config/key.h"
#include "libcni/plugin/request.h"
#include "plugins/leases/conf.h"
#include "plugins/state/pool.h"

namespace cluster_pool {

extern const cni::Manual kManual;

struct Conf {
  leases::Conf leases = {};  ///< whose sets are those of the whole pool
  blocks::Pool pool = {};
  std::chrono::seconds wait{10};  ///< for a block, at most; 0: not at all

  /// \throws cni::Error: 7 with the JSON path, 4 for CNI_ARGS.
  static Conf parse(const cni::Request& request);
};

}  // namespace cluster_pool
