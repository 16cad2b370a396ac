#pragma once

#include <string>

#include "libcni/config/json_value.h"
#include "libcni/config/subnet_env.h"
#include "libcni/plugin/plugin.h"
#include "plugins/names/state.h"

namespace flannel {

/// The config, of which `delegate` and `ipam` are the base of the delegate's config.
struct Conf {
  std::string subnet_file = cni::kSubnetEnv;
  std::string data_dir = names::kFlannelDataDir;
  cni::JsonValue delegate = {}, ipam = {}, runtime_config = {};  ///< objects; null: absent

  /// \throws cni::Error(kInvalidConfig) naming the key. What is in `delegate` and `ipam` is another
  /// matter: delegate_config().
  static Conf parse(const cni::Request& request);
};

extern const cni::Manual kManual;

/// `dataDir` for DEL and GC, which go on with the default where the config has none that can be
/// used.
std::string data_dir_of(const cni::Request& request);

/// The content of `subnetFile`. \throws cni::Error in the words of the reference plugin:
/// kTryAgainLater if the file is missing or incomplete, as before flanneld wrote it.
cni::SubnetEnv load_subnet_env(const Conf& conf);

}  // namespace flannel
