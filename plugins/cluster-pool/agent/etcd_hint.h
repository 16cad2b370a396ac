#pragma once

#include <string>

#include "plugins/cluster-pool/agent/conf.h"

namespace block_agent {

/// The way out of an error of etcd or gRPC whose sentence does not name it: the key of the config
/// and its value, or a command. "": nothing is known of this error.
std::string etcd_hint(const std::string& sentence, const std::string& endpoint,
                      const EtcdConf& conf);

}  // namespace block_agent
